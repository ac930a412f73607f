"""Which values of a run's config have changed since it began."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ding_lite.config import changed_values, compile_config, save_config
from ding_lite.utils import ConfigError

BEGAN = ["policy.learn.learning_rate=0.001", "env.n_evaluator_episode=5"]


def changes(tmp_path: Path, *overrides: str, **limits: int) -> list[str]:
    """Return the changes of a run that began with `BEGAN` and 400 env steps."""
    config = (dict(exp_name="run", env=dict(env_id="CartPole-v0")), dict(policy=dict(type="dqn")))
    path = tmp_path / "total_config.py"
    save_config(compile_config(config, overrides=BEGAN), path, max_env_step=400)
    cfg = compile_config(config, overrides=[*BEGAN, *overrides])
    return changed_values(path, cfg, {"max_env_step": 400, **limits})


def test_a_run_that_is_only_resumed_changes_nothing(tmp_path: Path) -> None:
    before = list(sys.path)
    assert changes(tmp_path, "policy.learn.resume_training=True", "exp_name=elsewhere") == []
    assert sys.path == before, "modules are found where they were"


def test_values_and_limits_are_told_with_those_before(tmp_path: Path) -> None:
    schedule = "{'type': 'linear', 'start': 1e-3, 'end': 1e-4, 'over': 100, 'by': 'iteration'}"
    told = changes(tmp_path, f"policy.learn.learning_rate={schedule}", "env.stop_value=195", max_env_step=800)
    assert told == [
        "env.stop_value=195 (None before)",
        f"policy.learn.learning_rate={schedule} (0.001 before)".replace("1e-3", "0.001").replace("1e-4", "0.0001"),
        "max_env_step=800 (400 before)",
    ]


def test_a_file_that_is_gone_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        changed_values(tmp_path / "total_config.py", {}, {})

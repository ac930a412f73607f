"""What a run has saved is read without running its file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config import changed_values, compile_config, read_config, read_saved_run, save_config
from ding_lite.utils.registry import ConfigError
from tests.config.helpers import CARTPOLE, PONG, pair

ODD: dict[str, Any] = {
    "infinite": [math.inf, -math.inf],
    "small": -0.0,
    "text": "quote ' \" \\ \n é",
    "none": [None, True],
}
WHOLE = "main_config = {}\ncreate_config = {}\nlimits = {}\npipeline = 'serial_pipeline'\n"


@pytest.mark.parametrize("config", [CARTPOLE, PONG, pair(dict(env=dict(kwargs=ODD, stop_value=math.inf)))])
def test_reading_gives_what_running_the_file_gives(tmp_path: Path, config: Any) -> None:
    path = tmp_path / "total_config.py"
    save_config(compile_config(config), path, max_env_step=100)
    saved = read_saved_run(path)
    assert (saved.main_config, saved.create_config) == read_config(path)
    assert saved.limits == {"max_env_step": 100}
    assert saved.pipeline in path.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("main_config = {'a': open('executed', 'w')}\n", "line 1: this is code, not plain values"),
        (WHOLE + "limits = dict(max_env_step=3)\n", "line 5: this is code, not plain values"),
        (WHOLE + "pipeline = __import__('os').getcwd()\n", "line 5: this is code, not plain values"),
        ("main_config = {'a': [inf, b]}\n", "line 1: this is code, not plain values"),
        ("main_config = " + "(" * 5000 + ")" * 5000, "line 1: "),
        ("main_config = " + "-" * 100_000 + "1", "line 1: "),
        ("main_config = {[]: 1}\n", "line 1: this is code, not plain values"),
        ("x = 1\nmain_config = {\n", r"line 2: SyntaxError: '\{' was never closed"),
        ("\x00", "line 1: "),
        (WHOLE.replace("'serial_pipeline'", "3"), "expected a string 'pipeline', got int 3"),
        (WHOLE.replace("limits = {}", "limits = [1]"), "expected a dict 'limits', got list"),
        (WHOLE + "import_dirs = ['.']\n", "expected absolute paths in 'import_dirs', got list"),
    ],
)
def test_anything_else_is_one_line_and_is_not_run(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "total_config.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_saved_run(path)
    assert [file.name for file in tmp_path.iterdir()] == ["total_config.py"]


BEGAN = ["policy.learn.learning_rate=0.001", "env.n_evaluator_episode=5"]


def changes(tmp_path: Path, *overrides: str, **limits: int) -> list[str]:
    """Return the changes of a run that began with `BEGAN` and 400 env steps."""
    config = (dict(exp_name="run", env=dict(env_id="CartPole-v0")), dict(policy=dict(type="dqn")))
    path = tmp_path / "total_config.py"
    save_config(compile_config(config, overrides=BEGAN), path, max_env_step=400)
    cfg = compile_config(config, overrides=[*BEGAN, *overrides])
    return changed_values(path, cfg, {"max_env_step": 400, **limits})


def test_changed_values_and_limits_are_listed_with_those_before(tmp_path: Path) -> None:
    schedule = "{'type': 'linear', 'start': 0.001, 'end': 0.0001, 'over': 100, 'by': 'iteration'}"
    listed = changes(tmp_path, f"policy.learn.learning_rate={schedule}", "env.stop_value=195", max_env_step=800)
    assert listed == [
        "env.stop_value=195 (None at the start)",
        f"policy.learn.learning_rate={schedule} (0.001 at the start)",
        "max_env_step=800 (400 at the start)",
    ]

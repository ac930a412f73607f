"""DQN, PPO and the DDPG of hybrid actions learn toy tasks within seconds: games of one step, and a corridor.

tests/benchmarks/learning.py trains every policy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.utils.registry import ENV_REGISTRY
from tests.policy.actors import Corridor, MaskedMatch, Match
from tests.run.helpers import metrics, result

# Random play is worth about 0.15, below -1 in the corridor, whose best return is 0.6, and 0.42.
TASKS = {"hybrid": (Match, 0.8), "corridor": (Corridor, 0.59), "masked": (MaskedMatch, 0.95)}  # and their goals
SMALL = dict(encoder_hidden_size_list=[32, 32])
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": dict(
        model=SMALL, learn=dict(learning_rate=0.003, entropy_weight=0.0, epoch_per_collect=4, batch_size=64),
        collect=dict(n_sample=256),
    ),
    "dqn": dict(
        model=SMALL, nstep=2, collect=dict(n_sample=16),
        learn=dict(update_per_collect=4, batch_size=32, learning_rate=0.003, target_update_freq=20),
        other=dict(eps=dict(decay=500), replay_buffer=dict(replay_buffer_size=2000)),
    ),
    "paddpg": dict(
        random_collect_size=0, learn=dict(update_per_collect=8, batch_size=64, target_theta=0.05),
        model=dict(actor_head_hidden_size=32, critic_head_hidden_size=32),
        collect=dict(n_sample=16), other=dict(eps=dict(decay=2000)),
    ),
}  # fmt: skip
CASES = [("dqn", "corridor"), ("dqn", "masked"), ("ppo", "hybrid"), ("paddpg", "hybrid")]


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_a_toy_task_is_learned(kind: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env_cls, goal = TASKS[task]
    monkeypatch.setitem(ENV_REGISTRY, "toy", env_cls)
    policy = dict(num_threads=1, eval=dict(evaluator=dict(eval_freq=20 if kind == "ppo" else 40)), discount_factor=0.9)
    main = dict(env=dict(n_evaluator_episode=48, stop_value=goal), policy=SETTINGS[kind] | policy)
    create = dict(env=dict(type="toy"), policy=dict(type=kind))
    pipeline = serial_pipeline_onpolicy if kind == "ppo" else serial_pipeline
    pipeline((main, create), seed=0, max_env_step=40_000, overrides=[f"exp_name={tmp_path}/run"])
    returns = [line["eval/return_mean"] for line in metrics(tmp_path / "run") if "eval/return_mean" in line]
    assert result(tmp_path / "run")["stop_reason"] == "stop_value", returns
    assert returns[0] < goal - 0.2  # it could not do it from the start

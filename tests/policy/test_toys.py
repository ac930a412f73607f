"""Some algorithms learn toy tasks within seconds: games of one step, and a corridor.

tests/benchmarks/learning.py trains every policy.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.utils.registry import ENV_REGISTRY, POLICY_REGISTRY
from tests.algorithms import ALGORITHMS, policy_keys, row
from tests.policy.actors import Corridor, MaskedMatch, Match
from tests.run.helpers import metrics, result

# Random play is worth about 0.15, below -1 in the corridor, whose best return is 0.6, and 0.42.
TASKS = {"hybrid": (Match, 0.8), "corridor": (Corridor, 0.59), "masked": (MaskedMatch, 0.95)}  # and their goals
CASES = [(name, task) for name, each in ALGORITHMS.items() for task in each.solves]


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_a_toy_task_is_learned(kind: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env_cls, goal = TASKS[task]
    monkeypatch.setitem(ENV_REGISTRY, "toy", env_cls)
    on_policy = POLICY_REGISTRY.find(kind).learns_from == "collect"
    policy = dict(num_threads=1, eval=dict(evaluator=dict(eval_freq=20 if on_policy else 40)), discount_factor=0.9)
    main = dict(env=dict(n_evaluator_episode=48, stop_value=goal), policy=policy)
    create = dict(env=dict(type="toy"), policy=dict(type=kind))
    pipeline = serial_pipeline_onpolicy if on_policy else serial_pipeline
    words = [f"exp_name={tmp_path}/run", *policy_keys(row(kind).solver)]
    pipeline((main, create), seed=0, max_env_step=40_000, overrides=words)
    returns = [line["eval/return_mean"] for line in metrics(tmp_path / "run") if "eval/return_mean" in line]
    assert result(tmp_path / "run")["stop_reason"] == "stop_value", returns
    assert returns[0] < goal - 0.2  # it could not do it from the start

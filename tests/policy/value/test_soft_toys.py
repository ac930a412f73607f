"""Policies with soft values learn toy tasks within seconds: a one-step game, and a corridor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ding_lite.entry import serial_pipeline
from ding_lite.utils.registry import ENV_REGISTRY
from tests.policy.actors import Corridor, Match

LEARN: dict[str, dict[str, Any]] = {
    "mdqn": dict(learning_rate=0.003),
    "sql": dict(learning_rate=0.003, alpha=0.05),
    "sqn": dict(learning_rate_q=0.003, alpha=0.05, target_theta=0.02),
}
STOP = {"discrete": 0.95, "corridor": 0.59}  # random play is worth 1/3 and less than 0


@pytest.mark.parametrize("task", STOP)
@pytest.mark.parametrize("kind", LEARN)
def test_a_toy_task_is_learned(kind: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENV_REGISTRY, "match", Match)
    monkeypatch.setitem(ENV_REGISTRY, "corridor", Corridor)
    main = dict(
        exp_name="run",
        env=dict(env_id=task, n_evaluator_episode=48, stop_value=STOP[task]),
        policy=dict(
            num_threads=1,
            discount_factor=0.9,
            model=dict(encoder_hidden_size_list=[32, 32]),
            learn=dict(update_per_collect=4, **LEARN[kind]),
            eval=dict(evaluator=dict(eval_freq=50)),
            other=dict(eps=dict(end=0.1, decay=500)),
        ),
    )
    create = dict(env=dict(type="corridor" if task == "corridor" else "match"), policy=dict(type=kind))
    serial_pipeline((main, create), seed=0, max_env_step=10_000)
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    returns = [line["eval/return_mean"] for line in lines if "eval/return_mean" in line]
    assert json.loads(Path("run/result.json").read_text())["stop_reason"] == "stop_value", returns
    assert returns[0] < STOP[task] - 0.2  # it could not do it from the start

"""Policies that learn values of actions from replay, and an actor or arguments besides, learn toy tasks in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ding_lite.entry import serial_pipeline
from ding_lite.utils.registry import ENV_REGISTRY
from tests.policy.actors import Corridor, Match

# What differs from the defaults. Random play is worth 1/3 in 'discrete', about 0.15 in 'hybrid', and below -1 in the
# corridor.
SETTINGS: dict[str, dict[str, Any]] = {
    "discrete_sac": dict(
        random_collect_size=0,
        learn=dict(
            update_per_collect=4,
            batch_size=32,
            target_theta=0.05,
            learning_rate_q=0.003,
            learning_rate_policy=0.003,
            auto_alpha=False,
            alpha=0.05,
        ),
        collect=dict(n_sample=16),
    ),
    "acer": dict(
        unroll_len=8,
        learn=dict(learning_rate_actor=0.003, learning_rate_critic=0.003),
        model=dict(encoder_hidden_size_list=[32, 32]),
    ),
    "pdqn": dict(
        learn=dict(update_per_collect=10, learning_rate_dis=0.003, learning_rate_cont=0.003, target_theta=0.05),
        model=dict(encoder_hidden_size_list=[32, 32]),
        collect=dict(n_sample=16),
        other=dict(eps=dict(decay=2000)),
    ),
    "paddpg": dict(
        random_collect_size=0,
        learn=dict(update_per_collect=8, batch_size=64, target_theta=0.05),
        model=dict(actor_head_hidden_size=32, critic_head_hidden_size=32),
        collect=dict(n_sample=16),
        other=dict(eps=dict(decay=2000)),
    ),
}
STOP = {"discrete": 0.95, "hybrid": 0.8, "corridor": 0.59}
TASKS = {
    "discrete_sac": ("discrete", "corridor"),
    "acer": ("discrete", "corridor"),
    "pdqn": ("hybrid",),
    "paddpg": ("hybrid",),
}
CASES = [(kind, task) for kind, tasks in TASKS.items() for task in tasks]


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_a_toy_task_is_learned(kind: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENV_REGISTRY, "toy", Corridor if task == "corridor" else Match)
    main: dict[str, Any] = dict(
        exp_name="run",
        env=dict(env_id=task, n_evaluator_episode=48, stop_value=STOP[task]),
        policy=SETTINGS[kind] | dict(num_threads=1, eval=dict(evaluator=dict(eval_freq=40)), discount_factor=0.9),
    )
    serial_pipeline((main, dict(env=dict(type="toy"), policy=dict(type=kind))), seed=0, max_env_step=40_000)
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    returns = [line["eval/return_mean"] for line in lines if "eval/return_mean" in line]
    assert json.loads(Path("run/result.json").read_text())["stop_reason"] == "stop_value", returns
    assert returns[0] < STOP[task] - 0.2  # it could not do it from the start

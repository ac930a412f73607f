"""Environments of numbers and of bytes train with a value policy and with an actor-critic, as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy

ENVS: dict[str, dict[str, Any]] = {
    "frozen_lake": dict(env_id="FrozenLake-v1"),
    "cliff_walking": dict(env_id="CliffWalking-v1"),
    "taxi": dict(env_id="Taxi-v4"),
    "ram": dict(env_id="ALE/Pong-v5", import_names=["ale_py"], kwargs=dict(obs_type="ram")),
}


@pytest.mark.parametrize("kind", ["dqn", "ppo"])
@pytest.mark.parametrize("name", ENVS)
def test_it_trains(name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    numbers = dict(collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1, max_episode_steps=20)
    collect = dict(n_sample=32)
    learn = dict(batch_size=16) | ({"epoch_per_collect": 1} if kind == "ppo" else {"update_per_collect": 1})
    main = dict(exp_name="run", env=ENVS[name] | numbers, policy=dict(collect=collect, learn=learn))
    create = dict(env=dict(type="gymnasium"), policy=dict(type=kind))
    pipeline = serial_pipeline if kind == "dqn" else serial_pipeline_onpolicy
    pipeline((main, create), seed=0, max_env_step=96)
    result = json.loads(Path("run/result.json").read_text())
    assert (result["stop_reason"], result["envstep"]) == ("max_env_step", 96)
    assert result["train_iter"] >= 3

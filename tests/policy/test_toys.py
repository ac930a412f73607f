"""Every actor learns toy tasks within seconds: one-step games of each kind of action, and a corridor."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.policy import Policy
from ding_lite.utils.registry import ENV_REGISTRY, POLICY_REGISTRY
from tests.policy.actors import Corridor, Match

# What differs from the defaults. Random play is worth 1/3, 1/6, about 0.4, and about 0.15 in the four kinds of `Match`.
COMMON = dict(learning_rate=0.003, entropy_weight=0.0)
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": dict(learn=dict(epoch_per_collect=4, batch_size=64, **COMMON), collect=dict(n_sample=256)),
    "a2c": dict(learn=dict(batch_size=32, adv_norm=True, **COMMON), collect=dict(n_sample=64)),
    "pg": dict(learn=dict(batch_size=64, **COMMON), collect=dict(n_episode=64)),
    "impala": dict(unroll_len=8, learn=dict(update_per_collect=2, batch_size=16, **COMMON)),
    "ppo_offpolicy": dict(
        learn=dict(update_per_collect=4, batch_size=64, **COMMON),
        collect=dict(n_sample=128),
        other=dict(replay_buffer=dict(replay_buffer_size=512)),
    ),
}
STOP = {"discrete": 0.95, "multi_discrete": 0.95, "continuous": 0.85, "hybrid": 0.8, "corridor": 0.59}


@pytest.fixture(autouse=True)
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENV_REGISTRY, "match", Match)
    monkeypatch.setitem(ENV_REGISTRY, "corridor", Corridor)


def run(kind: str, task: str, *overrides: str, max_env_step: int = 40_000) -> Policy:
    main: dict[str, Any] = dict(
        exp_name="run",
        env=dict(env_id=task, n_evaluator_episode=48, stop_value=STOP[task]),
        policy=copy.deepcopy(SETTINGS[kind])
        | dict(num_threads=1, eval=dict(evaluator=dict(eval_freq=20)), discount_factor=0.9),
    )
    main["policy"]["model"] = dict(encoder_hidden_size_list=[32, 32])
    create = dict(env=dict(type="corridor" if task == "corridor" else "match"), policy=dict(type=kind))
    on_policy = POLICY_REGISTRY.find(kind).learns_from == "collect"
    pipeline = serial_pipeline_onpolicy if on_policy else serial_pipeline
    return pipeline((main, create), seed=0, max_env_step=max_env_step, overrides=overrides)


def returns() -> list[float]:
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    return [line["eval/return_mean"] for line in lines if "eval/return_mean" in line]


@pytest.mark.parametrize("task", STOP)
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_toy_task_is_learned(kind: str, task: str) -> None:
    run(kind, task)
    told = json.loads(Path("run/result.json").read_text())
    assert told["stop_reason"] == "stop_value", returns()
    assert returns()[0] < STOP[task] - 0.2  # it could not do it from the start


@pytest.mark.parametrize("manager", ["base", pytest.param("subprocess", marks=pytest.mark.slow)])
def test_a_hybrid_action_is_a_dict_of_both_parts_everywhere(manager: str) -> None:
    few = ("env.collector_env_num=2", "env.evaluator_env_num=2", "env.n_evaluator_episode=2")
    policy = run("ppo", "hybrid", f"env.manager.type={manager}", *few, max_env_step=256)
    obs = torch.eye(5)[:3].numpy()
    for output in (policy.act(obs), policy.act(obs, explore=False)):
        assert set(output["action"]) == {"action_type", "action_args"}
        assert output["action"]["action_type"].dtype == torch.int64
        assert output["action"]["action_type"].shape == (3,)
        assert output["action"]["action_args"].shape == (3, 2)
    logit = policy.act(obs, explore=False)["logit"]
    chosen = policy.act(obs, explore=False)["action"]
    assert torch.equal(chosen["action_args"], logit["action_args"]["mu"])
    assert torch.equal(chosen["action_type"], logit["action_type"].argmax(-1))
    assert dict(policy._cfg.model.action_shape) == {"action_type_shape": 3, "action_args_shape": 2}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_run_on_a_gpu(kind: str) -> None:
    policy = run(kind, "hybrid", "policy.cuda=True", max_env_step=1024)
    assert {p.device.type for p in policy.model.parameters()} == {"cuda"}
    assert json.loads(Path("run/result.json").read_text())["train_iter"] > 0

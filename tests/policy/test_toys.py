"""Every policy that plays learns a toy task within seconds: one-step games of each kind of action, and a corridor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.config.schema import merge
from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.policy import Policy
from ding_lite.utils.registry import ENV_REGISTRY, POLICY_REGISTRY
from tests.policy.actors import Corridor, MaskedMatch, Match

# Random play is worth 1/3, 1/6, about 0.4, about 0.15, below -1 in the corridor, whose best return is 0.6, and 0.42.
STOP = {"discrete": 0.95, "multi_discrete": 0.95, "continuous": 0.85, "hybrid": 0.8, "corridor": 0.59, "masked": 0.95}
# What differs from the defaults, by the family and then by the policy.
SMALL = dict(model=dict(encoder_hidden_size_list=[32, 32]))
ACTOR = merge(SMALL, dict(learn=dict(learning_rate=0.003, entropy_weight=0.0)))
VALUE = merge(SMALL, dict(
    nstep=2, learn=dict(update_per_collect=4, batch_size=32, learning_rate=0.003, target_update_freq=20),
    collect=dict(n_sample=16), other=dict(eps=dict(decay=500), replay_buffer=dict(replay_buffer_size=2000)),
))  # fmt: skip
SOFT = merge(SMALL, dict(
    learn=dict(update_per_collect=4, learning_rate=0.003), other=dict(eps=dict(end=0.1, decay=500)),
))  # fmt: skip
ATOMS, QUANTILES = dict(v_min=-3.0, v_max=1.0), dict(num_quantiles=8)
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ppo": (ACTOR, dict(learn=dict(epoch_per_collect=4, batch_size=64), collect=dict(n_sample=256))),
    "a2c": (ACTOR, dict(learn=dict(batch_size=32, adv_norm=True), collect=dict(n_sample=64))),
    "pg": (ACTOR, dict(learn=dict(batch_size=64), collect=dict(n_episode=64))),
    "impala": (ACTOR, dict(unroll_len=8, learn=dict(update_per_collect=2, batch_size=16))),
    "ppo_offpolicy": (ACTOR, dict(
        learn=dict(update_per_collect=4, batch_size=64), collect=dict(n_sample=128),
        other=dict(replay_buffer=dict(replay_buffer_size=512)),
    )),
    "acer": (SMALL, dict(unroll_len=8, learn=dict(learning_rate_actor=0.003, learning_rate_critic=0.003))),
    "discrete_sac": ({}, dict(
        random_collect_size=0, collect=dict(n_sample=16),
        learn=dict(
            update_per_collect=4, batch_size=32, target_theta=0.05, learning_rate_q=0.003, learning_rate_policy=0.003,
            auto_alpha=False, alpha=0.05,
        ),
    )),
    "pdqn": (SMALL, dict(
        learn=dict(update_per_collect=10, learning_rate_dis=0.003, learning_rate_cont=0.003, target_theta=0.05),
        collect=dict(n_sample=16), other=dict(eps=dict(decay=2000)),
    )),
    "paddpg": ({}, dict(
        random_collect_size=0, learn=dict(update_per_collect=8, batch_size=64, target_theta=0.05),
        model=dict(actor_head_hidden_size=32, critic_head_hidden_size=32),
        collect=dict(n_sample=16), other=dict(eps=dict(decay=2000)),
    )),
    "dqn": (VALUE, {}),
    "qrdqn": (VALUE, dict(model=QUANTILES)),
    "rainbow": (VALUE, dict(model=ATOMS, random_collect_size=100)),
    "iqn": (VALUE, dict(model=QUANTILES | dict(quantile_embedding_size=16))),
    "fqf": (VALUE, dict(
        model=QUANTILES | dict(quantile_embedding_size=16),
        learn=dict(learning_rate_quantile=0.003, learning_rate_fraction=0.0001),
    )),
    "c51": (VALUE, dict(model=ATOMS)),
    "bdq": (VALUE, {}),
    "mdqn": (SOFT, {}),
    "sql": (SOFT, dict(learn=dict(alpha=0.05))),
    "sqn": (SOFT, dict(learn=dict(learning_rate_q=0.003, alpha=0.05, target_theta=0.02))),
}  # fmt: skip
ALL = ("corridor", "discrete", "multi_discrete", "continuous", "hybrid")
FIRST = dict(ppo="hybrid", a2c="continuous", pg="multi_discrete", impala="corridor", ppo_offpolicy="discrete")
TASKS = {kind: (first, *(task for task in ALL if task != first)) for kind, first in FIRST.items()}
TASKS |= dict.fromkeys(("pdqn", "paddpg"), ("hybrid",)) | {"bdq": ("multi_discrete",)}
TASKS |= {"dqn": ("corridor", "masked"), "ppo": (*TASKS["ppo"], "masked")}
TASKS |= dict.fromkeys(("qrdqn", "rainbow", "iqn", "fqf", "c51"), ("corridor",))
TASKS |= dict.fromkeys(("acer", "discrete_sac", "mdqn", "sql", "sqn"), ("corridor", "discrete"))
# `make test` runs the first task of each.
CASES = [
    pytest.param(kind, task, marks=[pytest.mark.slow] if number else [])
    for kind, tasks in TASKS.items()
    for number, task in enumerate(tasks)
]


@pytest.fixture(autouse=True)
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENV_REGISTRY, "match", Match)
    monkeypatch.setitem(ENV_REGISTRY, "corridor", Corridor)
    monkeypatch.setitem(ENV_REGISTRY, "masked", MaskedMatch)


def run(kind: str, task: str, *overrides: str, max_env_step: int = 40_000) -> Policy:
    policy_cls, (family, own) = POLICY_REGISTRY.find(kind), SETTINGS[kind]
    policy = merge(family, own)
    if "learning_rate" not in policy_cls.default_config().learn:
        policy["learn"].pop("learning_rate", None)
    on_policy = policy_cls.learns_from == "collect"
    policy |= dict(num_threads=1, eval=dict(evaluator=dict(eval_freq=20 if on_policy else 40)), discount_factor=0.9)
    main = dict(exp_name="run", env=dict(env_id=task, n_evaluator_episode=48, stop_value=STOP[task]), policy=policy)
    create = dict(env=dict(type=task if task in ("corridor", "masked") else "match"), policy=dict(type=kind))
    pipeline = serial_pipeline_onpolicy if on_policy else serial_pipeline
    return pipeline((main, create), seed=0, max_env_step=max_env_step, overrides=overrides)


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_a_toy_task_is_learned(kind: str, task: str) -> None:
    run(kind, task)
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    returns = [line["eval/return_mean"] for line in lines if "eval/return_mean" in line]
    assert json.loads(Path("run/result.json").read_text())["stop_reason"] == "stop_value", returns
    assert returns[0] < STOP[task] - 0.2  # it could not do it from the start


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
    assert dict(policy.current_config.model.action_shape) == {"action_type_shape": 3, "action_args_shape": 2}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", ["ppo", "a2c", "pg", "impala", "ppo_offpolicy"])
def test_a_run_on_a_gpu(kind: str) -> None:
    policy = run(kind, "hybrid", "policy.cuda=True", max_env_step=1024)
    assert {p.device.type for p in policy.model.parameters()} == {"cuda"}
    assert json.loads(Path("run/result.json").read_text())["train_iter"] > 0

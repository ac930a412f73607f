"""Policies that learn the values of discrete actions find the way through a corridor within a second or two."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ding_lite.entry import serial_pipeline
from ding_lite.utils.registry import ENV_REGISTRY, POLICY_REGISTRY
from tests.policy.actors import Corridor

STOP = 0.59  # the best return is 0.6; random play is worth about -1.5
COMMON: dict[str, Any] = dict(
    num_threads=1,
    discount_factor=0.9,
    nstep=2,
    model=dict(encoder_hidden_size_list=[32, 32]),
    learn=dict(update_per_collect=4, batch_size=32, learning_rate=0.003, target_update_freq=20),
    collect=dict(n_sample=16),
    eval=dict(evaluator=dict(eval_freq=40)),
    other=dict(eps=dict(decay=500), replay_buffer=dict(replay_buffer_size=2000)),
)
# What differs from COMMON, by the kind of policy.
SETTINGS: dict[str, tuple[str, ...]] = {
    "dqn": (),
    "qrdqn": ("policy.model.num_quantiles=8",),
    "rainbow": (*("policy.model.v_min=-3.0", "policy.model.v_max=1.0", "policy.random_collect_size=100"),),
    "iqn": ("policy.model.num_quantiles=8", "policy.model.quantile_embedding_size=16"),
    "fqf": (
        *("policy.model.num_quantiles=8", "policy.model.quantile_embedding_size=16"),
        *("policy.learn.learning_rate_quantile=0.003", "policy.learn.learning_rate_fraction=0.0001"),
    ),
    "c51": ("policy.model.v_min=-3.0", "policy.model.v_max=1.0"),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_way_through_the_corridor_is_learned(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENV_REGISTRY, "corridor", Corridor)
    policy = copy.deepcopy(COMMON)
    if "learning_rate" not in POLICY_REGISTRY.find(kind).default_config().learn:
        del policy["learn"]["learning_rate"]
    main = dict(exp_name="run", env=dict(env_id="corridor", stop_value=STOP), policy=policy)
    create = dict(env=dict(type="corridor"), policy=dict(type=kind))
    serial_pipeline((main, create), seed=0, max_env_step=6000, overrides=SETTINGS[kind])
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    returns = [line["eval/return_mean"] for line in lines if "eval/return_mean" in line]
    assert json.loads(Path("run/result.json").read_text())["stop_reason"] == "stop_value", returns
    assert returns[0] < STOP - 0.2  # it could not do it from the start

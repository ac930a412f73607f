"""Whole runs of the actor-critics and policy gradients on two real gloo processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.config import read_config
from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.policy import A2CPolicy, IMPALAPolicy, PGPolicy, PPOOffPolicy, PPOPolicy
from ding_lite.utils import POLICY_REGISTRY
from tests.distributed.launcher import ROOT
from tests.distributed.on_ranks import call_on_ranks
from tests.distributed.test_parity import leaves
from tests.entry.helpers import last_checkpoint, result
from tests.policy.helpers import parameter_hash

CONFIGS = ROOT / "dizoo" / "classic_control" / "cartpole" / "config"
POLICIES = {"ppo": PPOPolicy, "a2c": A2CPolicy, "pg": PGPolicy, "ppo_offpolicy": PPOOffPolicy, "impala": IMPALAPolicy}
STEPS = 1500  # env steps of both ranks, at least


def train(name: str) -> dict[str, Any]:
    """Train a policy from its config file; return what this rank ended with, and what it saw."""
    collected: list[dict[str, torch.Tensor]] = []

    policy_cls: Any = POLICIES[name]

    class Watched(policy_cls):  # type: ignore[misc]  # a base class that is known when it runs
        def _get_train_sample(self, block: dict[str, Any]) -> dict[str, Any]:
            collected.append({key: block[key].clone() for key in ("obs", "action", "reward")})
            return super()._get_train_sample(block)

    POLICY_REGISTRY["watched"] = Watched
    main_config, create_config = read_config(CONFIGS / f"cartpole_{name}_config.py")
    create_config["policy"]["type"] = "watched"
    pipeline = serial_pipeline_onpolicy if Watched.learns_from == "collect" else serial_pipeline
    overrides = [f"exp_name={name}", "policy.multi_gpu=True", "env.stop_value=None"]
    policy = pipeline((main_config, create_config), seed=0, max_env_step=STEPS, overrides=overrides)
    state = policy.state_dict()
    return {
        "state": parameter_hash(dict(leaves(state))),
        "model": parameter_hash(policy.model),
        "experience": [parameter_hash(block) for block in collected],
        "lengths": [len(block["reward"]) for block in collected],
        "steps": sum(block["reward"].numel() for block in collected),
    }


def train_all() -> dict[str, Any]:
    return {name: train(name) for name in POLICIES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("onpolicy")


@pytest.fixture(scope="module")
def ranks(folder: Path) -> list[dict[str, Any]]:
    return call_on_ranks(train_all, timeout=240, cwd=folder)


@pytest.mark.parametrize("name", POLICIES)
def test_ranks_learn_the_same_to_the_bit_from_experience_of_their_own(
    folder: Path, ranks: list[Any], name: str
) -> None:
    first, second = (rank[name] for rank in ranks)
    assert first["state"] == second["state"]
    assert first["model"] == second["model"]
    saved = last_checkpoint(folder / name)
    assert parameter_hash(saved["policy"]["model"]) == first["model"]
    assert saved["learner"]["train_iter"] > 0
    assert not set(first["experience"]) & set(second["experience"])
    told = result(folder / name)
    assert told["envstep"] == first["steps"] + second["steps"] >= STEPS
    assert told["world_size"] == 2
    assert len(first["lengths"]) == len(second["lengths"])
    assert (first["lengths"] != second["lengths"]) == (name == "pg")  # which collects whole episodes

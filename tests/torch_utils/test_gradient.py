"""One place chooses what computes gradients, and an eager run loads no module of the room `gpu/`."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from easydict import EasyDict

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.torch_utils import gradient
from tests.distributed.on_ranks import call_on_ranks

ON_RANKS = dict(multi_gpu=True, data_parallel="flat", bp_update_sync=True, compile=False, cuda_graph="auto")


def train_eagerly() -> list[str]:
    """Learn with DQN, PPO and SAC; return the modules of the room that were loaded meanwhile."""
    for name, kind in {"dqn": "discrete", "ppo": "discrete", "sac": "continuous"}.items():
        env = dict(type="parity", kind=kind, collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1)
        policy: dict[str, Any] = dict(collect=dict(n_sample=16), learn=dict(batch_size=8), multi_gpu=True)
        create_config = dict(env=dict(type="parity", import_names=["tests.distributed.parity"]), policy=dict(type=name))
        if name != "ppo":
            policy["random_collect_size"] = 16
        pipeline = serial_pipeline_onpolicy if name == "ppo" else serial_pipeline
        trained = pipeline((dict(exp_name=name, env=env, policy=policy), create_config), seed=0, max_env_step=64)
        assert trained.iteration > 0
    return [module for module in sys.modules if module.startswith("ding_lite.gpu")]


def test_eager_runs_of_dqn_ppo_and_sac_load_no_module_of_the_room() -> None:
    """Of two ranks; tests/test_layers.py has those of one process."""
    assert call_on_ranks(train_eagerly) == [[]] * 2


@pytest.mark.parametrize(
    ("keys", "device", "shared", "ranks", "expected"),
    [
        ({}, "cpu", True, 2, "EagerGradient"),
        ({}, "cuda", False, 2, "CapturedGradient"),
        ({"cuda_graph": "off"}, "cuda", False, 2, "EagerGradient"),
        ({"compile": True}, "cuda", False, 2, "CompiledGradient"),
        ({"data_parallel": "ddp"}, "cuda", False, 2, "OverlappedGradient"),
        ({"data_parallel": "ddp"}, "cpu", True, 1, "EagerGradient"),
        ({"bp_update_sync": False}, "cuda", False, 2, "OverlappedGradient"),
        ({"bp_update_sync": False}, "cuda", False, 1, "CapturedGradient"),
        ({"bp_update_sync": False}, "cpu", True, 2, "EagerGradient"),
    ],
)
def test_the_config_the_device_and_the_ranks_choose_the_way(
    keys: dict[str, Any], device: str, shared: bool, ranks: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = torch.nn.Linear(1, 1)
    flat: Any = EasyDict(is_shared=shared)
    flat.gradient = EasyDict(device=torch.device(device))
    monkeypatch.setattr(gradient, "get_world_size", lambda: ranks)
    chosen = gradient.create_gradient(network, EasyDict(ON_RANKS | keys), flat, check=None)  # type: ignore[arg-type]
    assert type(chosen).__name__ == expected

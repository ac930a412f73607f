"""Agent and observers, as far as one process shows them; the rest is in tests/distributed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ding_lite.entry import serial_pipeline_rpc
from ding_lite.entry.rpc.serial_entry_rpc import find_encoder, flatten, unflatten
from ding_lite.utils.registry import ConfigError
from dizoo.classic_control.cartpole.config.cartpole_pg_rpc_config import create_config, main_config
from tests.policy.actors import make_actor


def test_one_process_is_told_how_to_start_more() -> None:
    with pytest.raises(ConfigError, match=r"at least one observer.*torchrun --nproc_per_node=3.*ding_lite -m rpc"):
        serial_pipeline_rpc((main_config, create_config))


def test_a_model_without_encoder_and_head_is_refused_with_what_it_has() -> None:
    policy = make_actor("a2c")
    with pytest.raises(ConfigError, match=r"'VAC' cannot be split.*got encoder, actor_head, critic_head"):
        find_encoder(policy)


def test_an_encoder_with_buffers_is_refused() -> None:
    policy = make_actor("pg")
    assert find_encoder(policy) is policy.model.encoder
    find_encoder(policy).add_module("norm", nn.BatchNorm1d(4))
    with pytest.raises(ConfigError, match=r"buffers \(.*running_mean"):
        find_encoder(policy)


def test_what_is_flattened_comes_back_whatever_the_strides() -> None:
    image = torch.arange(2 * 3 * 4 * 5.0).view(2, 3, 4, 5)
    tensors = [image.to(memory_format=torch.channels_last), torch.arange(3.0)]
    flat = flatten(tensors)
    assert flat.tolist() == [*range(120), 0, 1, 2]
    like = [torch.empty_like(tensor) for tensor in tensors]
    assert all(torch.equal(new, old) for new, old in zip(unflatten(flat, like), tensors, strict=True))

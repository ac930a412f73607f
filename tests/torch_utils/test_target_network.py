"""What a target network is after each update, and after loading; policies' own tests see it at work."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.torch_utils.target_network import TargetNetwork
from ding_lite.utils import FlatParameters


def make(**kwargs: Any) -> tuple[Any, Any]:
    """Return a network, whose weight is 0 and whose batch norm has a buffer, and its target."""
    linear = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(linear.weight)
    online = nn.Sequential(linear, nn.BatchNorm1d(1))
    return online, TargetNetwork(online, FlatParameters(online), **kwargs)


def follow(online: Any, target: TargetNetwork, steps: int) -> list[float]:
    """Add 1 to the network's weight before each update; return the target's after each."""
    seen = []
    for _ in range(steps):
        online[0].weight.data.add_(1.0)
        target.update()
        seen.append(target.network.get_parameter("0.weight").item())
    return seen


@pytest.mark.parametrize("kwargs", [{"freq": 2}, {"theta": 0.5}])
def test_buffers_are_the_networks_own_at_once(kwargs: dict[str, Any]) -> None:
    online, target = make(**kwargs)
    online[1].running_mean.fill_(5.0)
    target.update()
    assert target.network[1].running_mean.item() == 5.0


def test_a_restored_one_goes_on_counting_and_a_new_run_starts_from_the_model() -> None:
    online, target = make(freq=3)
    follow(online, target, 4)  # 3, and one update later
    other_online, other = make(freq=3)
    other_online.load_state_dict(online.state_dict())
    other.load_state_dict(target.state_dict())
    assert other.network[0].weight.item() == 3.0
    assert follow(other_online, other, 2) == [3.0, 6.0]
    other.load_state_dict({})
    assert (other.network[0].weight.item(), other.updates) == (6.0, 0)


def test_it_becomes_the_network_every_100_updates_by_default() -> None:
    online, target = make()
    before = target.network[0].weight.item()
    assert follow(online, target, 100)[98:] == [before, online[0].weight.item()]


class HeadAndEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)


@pytest.mark.parametrize("kwargs", [{"freq": 1}, {"theta": 1.0}])
def test_it_follows_a_network_whose_parts_are_optimised_in_another_order(kwargs: dict[str, Any]) -> None:
    online = HeadAndEncoder()
    target = TargetNetwork(online, FlatParameters(online.head, online.encoder), **kwargs)
    online.head.weight.data.fill_(1.0)
    online.encoder.weight.data.fill_(2.0)
    target.update()
    for name, parameter in online.named_parameters():
        assert torch.equal(target.network.get_parameter(name), parameter)


def test_an_optimizer_of_other_parameters_is_refused() -> None:
    online = HeadAndEncoder()
    with pytest.raises(ValueError, match="parameters are not those of the network"):
        TargetNetwork(online, FlatParameters(online.head), theta=0.5)
    with pytest.raises(ValueError, match="parameters are not those of the network"):
        TargetNetwork(online.head, FlatParameters(online), theta=0.5)

"""All networks of a policy are found, however it holds them."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import nn

from ding_lite.torch_utils.networks import checksum_networks, modules_of
from ding_lite.torch_utils.target_network import TargetNetwork
from ding_lite.utils import FlatParameters


class Helper:
    """Holds what it is given, and itself."""

    def __init__(self, held: Any) -> None:
        self.held, self.me = held, self


def test_networks_are_found_in_attributes_containers_and_helpers() -> None:
    layers = [nn.Linear(1, 1) for _ in range(9)]
    holder: Any = Helper(layers[0])
    holder.by_name = {"a": layers[1], "nested": {"b": [layers[2]]}}
    holder.pair, holder.queue = (layers[3], "text"), deque([layers[4]])
    holder.ensemble = nn.ModuleList(layers[5:7])
    holder.helper = Helper({"inside": Helper([layers[7]])})
    holder.target = TargetNetwork(layers[8], FlatParameters(layers[8]), freq=1)
    holder.other = [None, 3, torch.zeros(2), len, Helper, torch.optim.SGD(layers[0].parameters(), 0.1)]
    found = modules_of(holder)
    expected = [*layers[:5], holder.ensemble, *layers[7:], holder.target.network]
    assert {id(module) for module in found} == {id(module) for module in expected}
    assert len(found) == len(expected)


def test_a_network_that_is_held_twice_or_inside_another_is_found_once() -> None:
    network = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    assert modules_of(Helper([network[0], network, {"again": network}])) == [network]


def test_the_checksum_is_of_parameters_and_buffers_alike() -> None:
    linear, norm = nn.Linear(2, 2), nn.BatchNorm1d(2)
    modules: list[nn.Module] = [linear, norm]
    sums = [checksum_networks(modules)]
    with torch.no_grad():
        linear.bias[0] += 1
        sums.append(checksum_networks(modules))
        norm.get_buffer("running_mean")[0] += 1
    assert len({*sums, checksum_networks(modules)}) == 3
    assert checksum_networks([*modules, modules[0]]) == checksum_networks(modules)

"""The state of a policy, for checkpoints, for copies that only act, and for new runs that start from a saved model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ding_lite.policy.schedules import Schedules
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.torch_utils.optimizer_step import Optimizers
from ding_lite.torch_utils.target_network import TargetNetwork
from ding_lite.utils.tree import tree_map


class Checkpointed:
    """Saves and restores a `Policy`, whose base class it is. A subclass overrides the methods with an underscore."""

    normalizer: Normalizer
    _model: nn.Module
    schedules: Schedules
    _optimizers: Optimizers
    _target_networks: dict[str, TargetNetwork]
    _average: WeightAverage | None
    _memory: dict[bool, dict[str, Any]]
    _acting: dict[str, nn.Module]
    _device: torch.device

    def state_dict(self) -> dict[str, Any]:
        """Return everything that learning changes; it is the same on all ranks."""
        state = self._state_dict_learn() | {"schedules": self.schedules.state_dict()}
        if self._average is not None:
            state["average"] = self._average.state_dict()
        return state | ({"normalizer": self.normalizer.state_dict()} if self.normalizer.active else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned. Without `optimizer`, a new run starts from a saved model.

        Such a run starts from averaged weights if the state has them.
        """
        goes_on = "optimizer" in state
        self._load_state_dict_learn(state if goes_on else _evaluated(state))
        if goes_on:
            self.schedules.load_state_dict(state["schedules"])
        if self._average is not None:
            self._average.load_state_dict(state.get("average") if goes_on else None)
        self.normalizer.load(state.get("normalizer", {}))

    def local_state_dict(self) -> dict[str, Any]:
        """Return the state of this rank alone: what it remembers of its running episodes, nested `[N, ...]`.

        A resumed run may deal environments to other ranks, and with them the rows of these tensors.
        """
        state = self._memory[True]
        return state | ({"normalizer": self.normalizer.local_state_dict()} if self.normalizer.active else {})

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `local_state_dict` returned."""
        own = {key: part for key, part in state.items() if key != "normalizer" and part is not None}
        self._memory[True] = tree_map(lambda leaf: leaf.to(self._device), own)
        self.normalizer.load_local_state_dict(state.get("normalizer", {}))

    # What subclasses override.

    def _state_dict_learn(self) -> dict[str, Any]:
        """Return everything that learning changes, which must be the same on all ranks, for a checkpoint."""
        targets = {name: target.state_dict() for name, target in self._target_networks.items()}
        state = {"model": self._model.state_dict(), **self._optimizers.state_dict(), **targets.pop("", {})}
        return state | ({"targets": targets} if targets else {})

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        """Restore a state of `_state_dict_learn`. Without `optimizer`, counters stay at zero: a new run starts."""
        self._model.load_state_dict(state["model"])
        if "optimizer" in state:
            self._optimizers.load_state_dict(state)
        for name, target in self._target_networks.items():
            own = state["targets"][name] if name and "optimizer" in state else state
            target.load_state_dict(own if "optimizer" in state else {})


def state_to_act(policy: Checkpointed) -> dict[str, Any]:
    """Return what `load_to_act` restores, for a copy of this policy that collects."""
    parts: dict[str, Any] = {
        "model": policy._model,
        "schedules": policy.schedules,
        "normalizer": policy.normalizer,
        **policy._acting,
    }
    return {name: part.state_dict() for name, part in parts.items()}


def load_to_act(policy: Checkpointed, state: dict[str, Any]) -> None:
    """Restore what acting needs, for a policy that does not learn, from a state or a dict with `model` alone.

    Averaged weights are preferred.
    """
    policy._model.load_state_dict(_evaluated(state)["model"])
    if "schedules" in state:  # exploration continues with the numbers that it had
        policy.schedules.load_state_dict(state["schedules"])
    policy.normalizer.load(state.get("normalizer", {}))
    for name in policy._acting.keys() & state:
        policy._acting[name].load_state_dict(state[name])


def _evaluated(state: dict[str, Any]) -> dict[str, Any]:
    """Return a policy's state with the weights that evaluations used as its `model`."""
    return {**state, "model": state["average"]} if "average" in state else state


class WeightAverage:
    """The exponential average of a network's weights over learner iterations, which evaluations may use.

    The weights of single iterations scatter around a mean, and so does what they play; the average scatters less
    (Polyak and Juditsky 1992). Learning does not use it. Buffers, such as statistics of batch normalisation, are
    averaged too if they are floats.

    The initial weights have no part in it: the average of t iterations is divided by what their shares add up to,
    1 - (1 - share)^t (Kingma and Ba 2015, section 3).

    Args:
        network: the network that learns. Its weights must be changed in place.
        share: the share of the newest weights in the average, per iteration.
    """

    def __init__(self, network: nn.Module, share: float) -> None:
        self._network, self._share = network, share
        tensors = network.state_dict(keep_vars=True)  # the parameters themselves, whose memory may be moved
        self._newest = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
        self._average = {name: tensor.detach().clone() for name, tensor in self._newest.items()}

    @torch.no_grad()
    def update(self, iterations: int) -> None:
        """Add the newest weights; call this once after each learner iteration, with their number so far, from 1."""
        # 1 - (1 - share)^t without the rounding errors of small shares
        total = -math.expm1(iterations * math.log1p(-self._share)) if self._share < 1.0 else 1.0
        torch._foreach_lerp_(list(self._average.values()), list(self._newest.values()), self._share / total)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Return a context manager in which the network has the average's weights."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        newest = {name: tensor.clone() for name, tensor in self._newest.items()}  # first: a weight may have two names
        for name, tensor in self._newest.items():
            tensor.copy_(self._average[name])
        self._average = newest

    def state_dict(self) -> dict[str, Any]:
        """Return the average: the network's state, with averaged weights."""
        return {**self._network.state_dict(), **self._average}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Restore a state that `state_dict` returned. None: the average starts anew, with the network's weights."""
        for name, tensor in self._average.items():
            tensor.copy_(state[name] if state else self._newest[name])

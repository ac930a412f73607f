"""Target networks: delayed copies of a network, for targets that do not move with every step."""

from __future__ import annotations

import copy
from typing import Any

from easydict import EasyDict
from torch import nn

from ding_lite.utils.dist.flat_parameters import FlatParameters
from ding_lite.utils.registry import ConfigError

DEFAULT_TARGET_UPDATE_FREQ = 100  # learner iterations


def check_target(learn: EasyDict) -> None:
    """Raise `ConfigError` if `target_update_freq` and `target_theta` of `learn` contradict; set a default if neither.

    Both are None where they are not used.
    """
    if learn.target_theta is None and learn.target_update_freq is None:
        learn.target_update_freq = DEFAULT_TARGET_UPDATE_FREQ
    if learn.target_theta is not None and learn.target_update_freq is not None:
        raise ConfigError("Set policy.learn.target_update_freq or policy.learn.target_theta, not both.")


class TargetNetwork:
    """A copy of a network. Every `freq` updates it is copied again, or every update mixes in a share `theta` of it.

    Buffers are copied at every update.

    Attributes:
        network: the copy, without gradient.
        updates: number of updates, in learner iterations.
    """

    def __init__(
        self, online: nn.Module, flat: FlatParameters, freq: int | None = None, theta: float | None = None
    ) -> None:
        """Copy `online`, whose parameters are views of `flat`; exactly one of `freq` and `theta` is not None.

        Raises:
            ValueError: if `flat` does not hold all trainable parameters of `online`, or holds others too.
        """
        self.network = copy.deepcopy(online)
        self.updates = 0
        self._freq, self._theta = freq, theta
        copies = _in_order_of(flat, online, self.network)
        self._online, self._target = flat.parameter.data, FlatParameters(copies).parameter.data
        self._buffer_pairs = list(zip(self.network.buffers(), online.buffers(), strict=True))
        self.network.requires_grad_(False)

    def update(self) -> None:
        """Update the copy; called once after each step of the network that learns."""
        self.updates += 1
        if self._theta is not None:
            self._target.lerp_(self._online, self._theta)
        elif self._freq is not None and self.updates % self._freq == 0:
            self._target.copy_(self._online)
        for buffer, source in self._buffer_pairs:
            buffer.copy_(source)

    def state_dict(self) -> dict[str, Any]:
        """Return the target's part of a policy's learn state."""
        return {"target_model": self.network.state_dict(), "iterations": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a policy's learn state; without `optimizer`, start a new run: the model's parameters, count 0."""
        resumed = "optimizer" in state
        self.network.load_state_dict(state["target_model"] if resumed else state["model"])
        self.updates = state["iterations"] if resumed else 0


def _in_order_of(flat: FlatParameters, online: nn.Module, copied: nn.Module) -> nn.ParameterList:
    """Return the parameters of a copy of `online` in the order in which `flat` holds the originals.

    The order differs from the module's if each part of a network has an optimizer.
    """
    pairs = zip(online.parameters(), copied.parameters(), strict=True)
    copy_of = {id(parameter): its_copy for parameter, its_copy in pairs if parameter.requires_grad}
    if {id(parameter) for parameter in flat.parameters} != set(copy_of):
        raise ValueError(
            "TargetNetwork: the optimizer trains other parameters than those of the network that the target follows. "
            "Give each network that has a target an optimizer of its own, or of parts that make up all of it."
        )
    return nn.ParameterList(copy_of[id(parameter)] for parameter in flat.parameters)

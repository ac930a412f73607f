"""Target networks: copies that follow the network which learns, so that it does not chase itself."""

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
    """A copy of a network that becomes it every `freq` updates, or mixes a share `theta` of it in at each.

    Buffers are copied at every update.

    Attributes:
        network: the copy, without gradient.
        updates: how often it was updated, learner iterations.
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
        """Follow the network that learns; called once after each of its steps."""
        self.updates += 1
        if self._theta is not None:
            self._target.lerp_(self._online, self._theta)
        elif self._freq is not None and self.updates % self._freq == 0:
            self._target.copy_(self._online)
        for buffer, source in self._buffer_pairs:
            buffer.copy_(source)

    def state_dict(self) -> dict[str, Any]:
        """Return what belongs into a policy's learn state, beside `model`."""
        return {"target_model": self.network.state_dict(), "iterations": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take a policy's learn state; without its `optimizer` a new run starts: the model's parameters, no count."""
        resumed = "optimizer" in state
        self.network.load_state_dict(state["target_model"] if resumed else state["model"])
        self.updates = state["iterations"] if resumed else 0


def _in_order_of(flat: FlatParameters, online: nn.Module, copied: nn.Module) -> nn.ParameterList:
    """Return the parameters of a copy of `online` in the order in which `flat` holds the originals.

    The order differs from the module's where the parts of a network have an optimizer each.
    """
    pairs = zip(online.parameters(), copied.parameters(), strict=True)
    copy_of = {id(parameter): its_copy for parameter, its_copy in pairs if parameter.requires_grad}
    if {id(parameter) for parameter in flat.parameters} != set(copy_of):
        raise ValueError(
            "TargetNetwork: the optimizer trains other parameters than those of the network that the target follows. "
            "Give each network that has a target an optimizer of its own, or of parts that make up all of it."
        )
    return nn.ParameterList(copy_of[id(parameter)] for parameter in flat.parameters)

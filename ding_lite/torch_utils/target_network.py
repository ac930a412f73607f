"""Target networks: delayed copies of a network, so that targets do not change with every step."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.schedule import Scheduled

DEFAULT_TARGET_UPDATE_FREQ = 100  # learner iterations


class TargetNetwork:
    """A delayed copy of a network.

    With `freq`, 100 by default, the parameters are copied after every `freq` updates. With `theta`, every update sets
    target = (1 - theta) * target + theta * online. Buffers are copied at every update.

    Args:
        online: the network that learns; its parameters are views of `flat`.
        flat: the flat parameters of the network's optimizers.
        freq: learner iterations between two copies, or None.
        theta: weight of the online network, which may be `Scheduled`, or None.

    Attributes:
        network: the copy; it needs no gradient.
        flat: the flat parameters of the copy.
        online: those of the network that learns.
        updates: number of updates so far, in learner iterations.

    Raises:
        ValueError: `flat` does not hold exactly the trainable parameters of `online`.
    """

    def __init__(
        self, online: nn.Module, flat: FlatParameters, freq: int | None = None, theta: float | None = None
    ) -> None:
        self.network, self._original = copy.deepcopy(online), online
        self.updates = 0
        self._freq, self._theta = freq or DEFAULT_TARGET_UPDATE_FREQ, theta
        self.online, self.flat = flat, FlatParameters(_in_order_of(flat, online, self.network))
        self._buffer_pairs = list(zip(self.network.buffers(), online.buffers(), strict=True))
        self.network.requires_grad_(False)

    def update(self) -> None:
        """Update the copy; call this once after each step of the online network."""
        self.updates += 1
        if self._theta is not None:
            theta = self._theta.current() if isinstance(self._theta, Scheduled) else self._theta
            self.flat.parameter.data.lerp_(self.online.parameter.data, theta)
        elif self.updates % self._freq == 0:
            self.flat.parameter.data.copy_(self.online.parameter.data)
        for buffer, source in self._buffer_pairs:
            buffer.copy_(source)

    def state_dict(self) -> dict[str, Any]:
        """Return the copy's parameters, buffers and count."""
        return {"target_model": self.network.state_dict(), "iterations": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned. An empty state makes a new copy of the network."""
        self.network.load_state_dict(state["target_model"] if state else self._original.state_dict())
        self.updates = state.get("iterations", 0)


def _in_order_of(flat: FlatParameters, online: nn.Module, copied: nn.Module) -> nn.ParameterList:
    """Return the parameters of a copy of `online` in the order of `flat`: parts may have an optimizer each."""
    pairs = zip(online.parameters(), copied.parameters(), strict=True)
    copy_of = {id(parameter): its_copy for parameter, its_copy in pairs if parameter.requires_grad}
    if {id(parameter) for parameter in flat.parameters} != set(copy_of):
        raise ValueError(
            "TargetNetwork: the optimizer's parameters are not those of the network that the target copies. Give each "
            "network that has a target its own optimizer, or one optimizer for each of its parts."
        )
    return nn.ParameterList(copy_of[id(parameter)] for parameter in flat.parameters)

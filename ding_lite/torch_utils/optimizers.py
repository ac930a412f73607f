"""The optimizers of a policy, by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ding_lite.torch_utils.optimizer_step import OptimizerStep

ALONE = "model"  # the name of an optimizer that has no others beside it


class Optimizers(dict[str, OptimizerStep]):
    """A policy's optimizers by name, in the order of their steps.

    An optimizer of the name 'model' stands alone: its figures and its state have no prefix.
    """

    def add(self, name: str, optimizer: OptimizerStep) -> OptimizerStep:
        """Keep and return an optimizer.

        Raises:
            ValueError: if the name is taken, or 'model' is not alone.
        """
        if name in self or (self and ALONE in (name, *self)):
            raise ValueError(f"_add_optimizer: '{name}' beside {list(self)}: give each a name of its own.")
        self[name] = optimizer
        return optimizer

    @property
    def skipped(self) -> int:
        """Updates that were left out so far, because something was not finite."""
        return sum(optimizer.check.skipped for optimizer in self.values())

    def finish(self) -> None:
        """End a series of steps; on a GPU only now is known whether the last one was finite.

        Raises:
            NonFiniteError: if it was not, and updates are not skipped.
        """
        for optimizer in self.values():
            optimizer.check.finish()

    def figures(self) -> dict[str, Tensor]:
        """Return the present learning rates, and `skipped_updates` if there were any."""
        rates: dict[str, Tensor] = {}
        for name, optimizer in self.items():
            prefix = "" if name == ALONE else f"{name}_"
            rates |= {f"{prefix}{key}": rate for key, rate in optimizer.learning_rates().items()}
        skipped = self.skipped
        return rates | {"skipped_updates": torch.tensor(skipped)} if skipped else rates

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all: that of 'model' itself, or those of several under `optimizer`."""
        states = {name: optimizer.state_dict() for name, optimizer in self.items()}
        return states.get(ALONE) or {"optimizer": states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave.

        Raises:
            ValueError: if a moment has another shape than its parameters.
        """
        for name, optimizer in self.items():
            optimizer.load_state_dict(state if name == ALONE else state["optimizer"][name])

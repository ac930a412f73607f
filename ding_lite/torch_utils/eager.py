"""The gradient of a loss, averaged over ranks, computed by one operation of torch after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.torch_utils.nonfinite import StepCheck
from ding_lite.torch_utils.optimizer import Loss
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.registry import UserError


class Eager:
    """Computes the averaged gradient, and updates parameters by it. Other ways to do the same are in `gpu/`.

    Args:
        network: the network that is trained.
        cfg: the compiled `cfg.policy`.
        flat: its parameters and gradients.
        check: decides whether a step is taken or skipped.

    Attributes:
        weight: weight of this rank's batch, if ranks have batches of different sizes: its size / the mean of all.
    """

    def __init__(self, network: nn.Module, cfg: EasyDict, flat: FlatParameters, check: StepCheck) -> None:
        self._network, self._cfg, self._flat, self._check = network, cfg, flat, check
        self.weight = 1.0

    def gradient(self, loss_of: Loss, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Write the gradient of a loss, the mean over all ranks, into `flat`; return the loss and its figures.

        Collective: all ranks must call it.
        """
        loss, figures = checked_output(loss_of(batch), loss_of)
        self._begin(batch, figures, loss)
        loss.backward()
        self._average()
        return loss, figures

    def _begin(self, batch: dict[str, Any], figures: dict[str, Tensor], loss: Tensor) -> None:
        self._check.begin(batch, figures, loss)
        self._flat.zero_grad()
        self._check.mark(self._flat)

    def _average(self) -> None:
        if self._cfg.multi_gpu:
            if self.weight != 1.0:
                self._flat.gradient.mul_(self.weight)
            self._flat.average_grad()

    def update(self, update: Callable[[], Tensor], optimizers: Collection[torch.optim.Optimizer]) -> Tensor:
        """Return `update()`, which changes the parameters by the steps of these optimizers."""
        return update()

    def forget(self) -> None:
        """Forget what holds the moments of the optimizers, because they were replaced."""


def checked_output(output: Any, loss: Any, has_gradient: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
    """Return what a loss returned, checked. Graphs return it without a gradient, which they have computed."""
    pair, name = output if isinstance(output, tuple) else (output,), getattr(loss, "__qualname__", type(loss).__name__)
    if len(pair) == 2 and isinstance(pair[0], Tensor) and pair[0].ndim == 0 and isinstance(pair[1], dict):
        if has_gradient and not pair[0].requires_grad:
            raise UserError(
                f"{name}: the loss has no gradient, because it does not depend on parameters that are trained, or was "
                "detached from them."
            )
        return pair
    got = ", ".join(f"{type(each).__name__}{list(each.shape) if isinstance(each, Tensor) else ''}" for each in pair)
    raise UserError(f"{name}: expected (loss, figures), a scalar tensor and a dict of tensors, got {got}.")

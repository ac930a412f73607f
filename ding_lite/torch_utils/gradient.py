"""Computes the averaged gradient of a loss, and chooses what computes it: this file, or a file of the room `gpu/`.

The rest of the kernel asks this file alone, and only `_load` imports the room.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.torch_utils.data import Figures
from ding_lite.torch_utils.nonfinite import StepCheck
from ding_lite.torch_utils.optimizer import Loss
from ding_lite.utils.ranks.collectives import get_world_size
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.registry import UserError

if TYPE_CHECKING:
    from ding_lite.gpu.cuda_graph import CudaGraphs


class EagerGradient:
    """Computes the gradient of a loss by backward, then its mean over ranks. The classes in `gpu/` have other ways.

    `flat` has the parameters of the network and their gradients; `check` is the check of the optimizer's steps.
    """

    detaches: ClassVar[bool] = False  # whether losses are returned detached, because their gradients are known already

    def __init__(self, network: nn.Module, cfg: EasyDict, flat: FlatParameters, check: StepCheck) -> None:
        self._network, self._cfg, self._flat, self._check = network, cfg, flat, check

    def function(self, loss_of: Loss) -> Loss:
        """Return what computes this loss of a batch, and its figures; here the loss itself."""
        return loss_of

    def compute(self, loss: Tensor, weight: float) -> None:
        """Write the averaged gradient of a loss that `function` returned into `flat`, see `OptimizerStep.weight`."""
        self._reset()
        loss.backward()
        self._average(weight)

    def update(self, update: Callable[[], Tensor], optimizers: Collection[torch.optim.Optimizer]) -> Tensor:
        """Return `update()`, which takes a step of these optimizers by the gradient."""
        return update()

    def _reset(self) -> None:
        self._flat.zero_grad()
        self._check.mark(self._flat)

    def _average(self, weight: float) -> None:
        if self._cfg.multi_gpu:
            if weight != 1.0:
                self._flat.gradient.mul_(weight)
            self._flat.average_grad()


def create_gradient(network: nn.Module, cfg: EasyDict, flat: FlatParameters, check: StepCheck) -> EagerGradient:
    """Return what computes gradients as the config says; the arguments are those of `EagerGradient`.

    DistributedDataParallel averages during backward if `policy.data_parallel` is 'ddp', or `policy.bp_update_sync` is
    False and gradients are sent in messages, which ranks that share memory do not. A GPU replays losses that are
    neither compiled nor averaged during backward.
    """
    sends = cfg.multi_gpu and get_world_size() > 1 and not flat.is_shared
    cls: type[EagerGradient] = EagerGradient
    if uses_ddp(cfg) or (sends and not cfg.get("bp_update_sync", True)):
        cls = _load("data_parallel", "OverlappedGradient")
    elif cfg.get("compile"):
        cls = _load("compiled_loss", "CompiledGradient")
    elif uses_graphs(cfg, flat.gradient.device):
        cls = _load("compiled_loss", "CapturedGradient")
    return cls(network, cfg, flat, check)


def uses_ddp(cfg: EasyDict) -> bool:
    """Return whether DistributedDataParallel is configured and there are several processes; `cfg` is `cfg.policy`."""
    return cfg.get("data_parallel") == "ddp" and get_world_size() > 1


def uses_graphs(cfg: EasyDict, device: torch.device) -> bool:
    """Return whether work on this device is replayed as CUDA graphs; `cfg` is `cfg.policy`."""
    return cfg.get("cuda_graph") == "auto" and device.type == "cuda"


def create_graphs(*owners: Any) -> CudaGraphs:
    """Return graphs of a function that reads values from these objects, where `uses_graphs` says so."""
    return _load("cuda_graph", "CudaGraphs")(*owners)


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"ding_lite.gpu.{module}"), name)


def check_output(output: Any, loss: Any, has_gradient: bool) -> tuple[Tensor, Figures]:
    """Return what a loss returned, or raise `UserError` if it is not a scalar and a dict, or lacks a gradient."""
    pair = output if isinstance(output, tuple) else (output,)
    if len(pair) == 2 and isinstance(pair[0], Tensor) and pair[0].ndim == 0 and isinstance(pair[1], dict):
        if has_gradient and not pair[0].requires_grad:
            raise UserError(
                f"{name_of(loss)}: the loss has no gradient, because it does not depend on parameters that are "
                "trained, or was detached from them."
            )
        return pair
    got = ", ".join(f"{type(each).__name__}{list(each.shape) if isinstance(each, Tensor) else ''}" for each in pair)
    raise UserError(f"{name_of(loss)}: expected (loss, figures), a scalar tensor and a dict of tensors, got {got}.")


def name_of(loss: Any) -> str:
    """Return the name of a loss for a message."""
    return name_of(loss.func) if isinstance(loss, partial) else getattr(loss, "__qualname__", type(loss).__name__)

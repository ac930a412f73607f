"""Averages gradients with torch's DistributedDataParallel, while backward is still running."""

from __future__ import annotations

import atexit
import gc
import inspect
import threading
import weakref
from typing import Any

import torch.distributed as dist
from easydict import EasyDict
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from torch.nn.parallel import DistributedDataParallel

from ding_lite.torch_utils.optimizer import Loss
from ding_lite.utils.ranks.collectives import await_gpu
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.ranks.heartbeat import waiting
from ding_lite.utils.registry import ConfigError

COMM_HOOKS = {"fp16": "FP16_COMPRESS", "bf16": "BF16_COMPRESS", "powersgd": "POWER_SGD"}  # torch's names


class OverlappedLoss:
    """A loss whose backward pass averages the gradients of `FlatParameters` over all ranks, in place.

    DistributedDataParallel wraps a module whose forward pass computes the loss, so policies need no change.

    Args:
        network: holds all parameters that the loss trains.
        loss: computes the loss of a batch, and figures.
        cfg: the compiled `cfg.policy`.
        flat: the network's parameters and gradients.
    """

    def __init__(self, network: nn.Module, loss: Loss, cfg: EasyDict, flat: FlatParameters) -> None:
        self._flat = flat
        self._ddp: DistributedDataParallel | None = _wrap(network, loss, cfg)
        self._group = dist.group.WORLD  # see `_free_groups`
        _owners.add(self)
        atexit.unregister(_free_groups)
        atexit.register(_free_groups)

    def __call__(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a batch and detached figures."""
        assert self._ddp is not None
        return self._ddp(batch)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of a loss and average them over all ranks; a collective call.

        Raises:
            ConfigError: this rank's loss does not use all parameters, and the config does not allow this.
        """
        assert self._ddp is not None
        with waiting():
            loss.backward()
            try:
                self._ddp._check_reducer_finalized()
            except RuntimeError as error:  # otherwise the ranks' parameters would diverge
                raise ConfigError(
                    "policy.data_parallel='ddp': the loss does not use all parameters of the network. Set "
                    "policy.ddp.find_unused_parameters=True."
                ) from error
            dist.all_reduce(self._flat.flag)  # it is not a parameter, so DDP does not average it
            await_gpu(self._flat.flag)

    def release(self) -> None:
        """Release the process group before the interpreter exits."""
        self._ddp = self._group = None


class _LossModule(nn.Module):
    """The loss as the forward pass of a module."""

    def __init__(self, network: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.network, self._loss = network, loss

    def forward(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        return self._loss(batch)


def _wrap(network: nn.Module, loss: Loss, cfg: EasyDict) -> DistributedDataParallel:
    known = inspect.signature(DistributedDataParallel).parameters
    options: dict[str, Any] = {
        "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False,  # since torch 2.13
        "init_sync": False,  # the policy broadcasts all its networks when they are built
        "bucket_cap_mb": cfg.ddp.bucket_cap_mb,
        "find_unused_parameters": cfg.ddp.find_unused_parameters or cfg.data_parallel != "ddp",
        "static_graph": cfg.ddp.static_graph,
    }
    ddp = DistributedDataParallel(_LossModule(network, loss), **options)
    if cfg.ddp.comm_hook:
        register_ddp_comm_hook(DDPCommHookType[COMM_HOOKS[cfg.ddp.comm_hook]], ddp, dist.group.WORLD)
    return ddp


_owners: weakref.WeakSet[OverlappedLoss] = weakref.WeakSet()  # each keeps the process group


def _free_groups() -> None:
    """Free the groups that DistributedDataParallel keeps, in a thread, before the interpreter ends.

    If the interpreter's exit freed them, the process could deadlock, because they wait for threads that may need the
    GIL. A Python thread waits without holding the GIL. The wait is limited to one second, because an error may have
    left a collective unfinished.
    """
    groups = []
    for owner in list(_owners):
        groups.append(owner._group)
        owner.release()
    gc.collect()
    thread = threading.Thread(target=groups.clear, daemon=True)
    thread.start()
    thread.join(1.0)

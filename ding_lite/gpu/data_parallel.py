"""Averages gradients with torch's DistributedDataParallel, while backward is still running."""

from __future__ import annotations

import gc
import inspect
import threading
import weakref
from functools import partial
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from torch.nn.parallel import DistributedDataParallel

from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.torch_utils.gradient import EagerGradient, uses_ddp
from ding_lite.torch_utils.optimizer import Loss
from ding_lite.utils.ranks.collectives import await_gpu
from ding_lite.utils.ranks.heartbeat import waiting
from ding_lite.utils.registry import ConfigError

COMM_HOOKS = {"fp16": "FP16_COMPRESS", "bf16": "BF16_COMPRESS", "powersgd": "POWER_SGD"}  # torch's names


class OverlappedGradient(EagerGradient):
    """Averages the gradients of `FlatParameters` over all ranks, in place, while backward computes them.

    DistributedDataParallel wraps a module whose forward pass computes the loss, so policies need no change.
    """

    _held: list[Any] | None = None

    def _create(self) -> list[Any]:
        """Return the process group, and the DistributedDataParallel of the network."""
        cfg = self._cfg
        known = inspect.signature(DistributedDataParallel).parameters
        chosen = cfg.get("ddp", {}) if uses_ddp(cfg) else {}
        options: dict[str, Any] = {
            "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False,  # torch 2.13
            "init_sync": False,  # the policy broadcasts all its networks when they are built
            "bucket_cap_mb": chosen.get("bucket_cap_mb", 25.0),
            "find_unused_parameters": chosen.get("find_unused_parameters", True),
            "static_graph": chosen.get("static_graph", False),
        }
        ddp = DistributedDataParallel(_LossModule(self._network), **options)
        if hook := chosen.get("comm_hook"):
            register_ddp_comm_hook(DDPCommHookType[COMM_HOOKS[hook]], ddp, dist.group.WORLD)
        held: list[Any] = [dist.group.WORLD, ddp]
        weakref.finalize(self, _free, held)
        return held

    def function(self, loss_of: Loss) -> Loss:
        """Return a function that computes the loss in the forward pass of DistributedDataParallel."""
        self._held = self._held or self._create()
        return partial(self._held[1], loss_of)

    def compute(self, loss: Tensor, weight: float) -> None:
        """Compute the gradient and average it meanwhile."""
        assert self._held is not None
        self._reset()
        with waiting():
            (loss if weight == 1.0 else loss * weight).backward()
            try:
                self._held[1]._check_reducer_finalized()
            except RuntimeError as error:  # otherwise the ranks' parameters would diverge
                raise ConfigError(
                    "policy.data_parallel='ddp': the loss does not use all parameters of the network. Set "
                    "policy.ddp.find_unused_parameters=True."
                ) from error
            dist.all_reduce(self._flat.flag)  # DDP averages parameters only, and the flag is none
            await_gpu(self._flat.flag)


class _LossModule(nn.Module):
    """A loss as the forward pass of a module."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, loss: Loss, batch: Batch) -> tuple[Tensor, Figures]:
        return loss(batch)


def _free(held: list[Any]) -> None:
    """Free a process group and the DistributedDataParallel that uses it, at the latest before the interpreter ends.

    If the interpreter's exit freed the group, the process could deadlock, because the group waits for threads that may
    need the GIL. Here Python's own reference is the last one, and a thread frees it without holding the GIL. The wait
    is limited to one second, because an error may have left a collective unfinished.
    """
    held.pop()
    gc.collect()
    thread = threading.Thread(target=held.clear, daemon=True)
    thread.start()
    thread.join(1.0)

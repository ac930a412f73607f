"""Averages gradients with torch's DistributedDataParallel, while backward is still running."""

from __future__ import annotations

import gc
import inspect
import threading
import weakref
from typing import Any

import torch
import torch.distributed as dist
from easydict import EasyDict
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from torch.nn.parallel import DistributedDataParallel

from ding_lite.torch_utils.optimizer import Loss
from ding_lite.utils.ranks.collectives import await_gpu, get_world_size
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.ranks.heartbeat import waiting
from ding_lite.utils.registry import ConfigError

COMM_HOOKS = {"fp16": "FP16_COMPRESS", "bf16": "BF16_COMPRESS", "powersgd": "POWER_SGD"}  # torch's names
GPU_ONLY = {"sync_batchnorm": True, "comm_hook": "bf16"}  # values of `policy.ddp` that need a GPU


def choose_overlap(cfg: EasyDict, flat: FlatParameters) -> bool:
    """Return whether `OverlappedLoss` averages this flat gradient.

    It does if `policy.data_parallel` is 'ddp'. It also does if `policy.bp_update_sync` is False and gradients are sent
    in messages. Ranks that share memory send none, so backward has nothing to overlap with.
    """
    sends = cfg.multi_gpu and get_world_size() > 1 and not flat.is_shared
    return uses_ddp(cfg) or (sends and not cfg.get("bp_update_sync", True))


def uses_ddp(cfg: EasyDict) -> bool:
    """Return whether DistributedDataParallel is configured and there are several processes; `cfg` is `cfg.policy`."""
    return cfg.get("data_parallel") == "ddp" and get_world_size() > 1


class OverlappedLoss:
    """Losses whose backward pass averages the gradients of `FlatParameters` over all ranks, in place.

    DistributedDataParallel wraps a module whose forward pass computes the loss, so policies need no change.
    """

    def __init__(self, network: nn.Module, cfg: EasyDict, flat: FlatParameters) -> None:
        known = inspect.signature(DistributedDataParallel).parameters
        chosen = cfg.get("ddp", {}) if uses_ddp(cfg) else {}
        options: dict[str, Any] = {
            "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False,  # torch 2.13
            "init_sync": False,  # the policy broadcasts all its networks when they are built
            "bucket_cap_mb": chosen.get("bucket_cap_mb", 25.0),
            "find_unused_parameters": chosen.get("find_unused_parameters", True),
            "static_graph": chosen.get("static_graph", False),
        }
        ddp = DistributedDataParallel(_LossModule(network), **options)
        if hook := chosen.get("comm_hook"):
            register_ddp_comm_hook(DDPCommHookType[COMM_HOOKS[hook]], ddp, dist.group.WORLD)
        self._flat = flat
        self._held: list[Any] = [dist.group.WORLD, ddp]
        weakref.finalize(self, _free, self._held)

    def __call__(self, loss: Loss, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a batch and detached figures."""
        return self._held[1](loss, batch)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of a loss and average them over all ranks; a collective call.

        Raises:
            ConfigError: this rank's loss does not use all parameters, and the config does not allow this.
        """
        with waiting():
            loss.backward()
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

    def forward(self, loss: Loss, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
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


def synchronize_batchnorm(model: nn.Module) -> nn.Module:
    """Return the model with torch's SyncBatchNorm as its batch normalisation, which uses the samples of all ranks.

    While gradients are disabled, ranks act independently, and the layers use their running statistics.
    """
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for module in model.modules():
        if isinstance(module, nn.SyncBatchNorm):
            module.register_forward_pre_hook(lambda module, _: module.train(torch.is_grad_enabled()) and None)
    return model


def check_data_parallel(policy: EasyDict, defaults: EasyDict) -> None:
    """Check `data_parallel`, `ddp` and `compile` of `cfg.policy`.

    Raises:
        ConfigError: a value has no effect, contradicts another one, or needs a GPU or a newer torch.
    """
    ddp = policy.ddp
    if policy.compile and "isolate_recompiles" not in inspect.signature(torch.compile).parameters:
        raise ConfigError(f"policy.compile=True needs torch 2.13 or newer, got {torch.__version__}: update torch.")
    if policy.compile and (policy.data_parallel == "ddp" or not policy.bp_update_sync):
        raise ConfigError(
            "policy.compile=True computes all gradients at once, so nothing can be averaged meanwhile: set "
            "policy.data_parallel='flat' and policy.bp_update_sync=True, or policy.compile=False."
        )
    if policy.data_parallel == "flat":
        for key in [key for key in defaults if ddp[key] != defaults[key]]:
            raise ConfigError(
                f"policy.ddp.{key}={ddp[key]!r} has an effect only with policy.data_parallel='ddp': set that too, or "
                "leave this key out."
            )
        return
    if ddp.comm_hook == "powersgd" and policy.learn.on_nonfinite == "skip":
        raise ConfigError(
            "policy.ddp.comm_hook='powersgd' adds the part of a gradient that it did not send to the next one, so a "
            "NaN would stay: set policy.learn.on_nonfinite='stop'."
        )
    if ddp.comm_hook == "powersgd" and ddp.find_unused_parameters:
        raise ConfigError(
            "policy.ddp.comm_hook='powersgd' sends more than once, which mixes with the search for unused parameters: "
            "set policy.ddp.find_unused_parameters=False."
        )
    if ddp.static_graph and ddp.find_unused_parameters:
        raise ConfigError(
            "policy.ddp.static_graph=True finds unused parameters in the first iteration: set either this or "
            "policy.ddp.find_unused_parameters=True, not both."
        )
    for key in [key for key, value in GPU_ONLY.items() if ddp[key] == value]:
        if not (policy.cuda and torch.cuda.is_available()):
            raise ConfigError(
                f"policy.ddp.{key}={ddp[key]!r} works only on GPUs: set policy.cuda=True on a machine that has one, or "
                "leave this key out."
            )

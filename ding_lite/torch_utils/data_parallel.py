"""Whether torch's DistributedDataParallel averages gradients: what the config asks for, and what contradicts."""

from __future__ import annotations

import torch
from easydict import EasyDict
from torch import nn

from ding_lite.utils.dist.flat_parameters import FlatParameters
from ding_lite.utils.dist.ranks import get_world_size
from ding_lite.utils.registry import ConfigError

GPU_ONLY = {"sync_batchnorm": True, "comm_hook": "bf16"}


def choose_overlap(cfg: EasyDict, flat: FlatParameters) -> bool:
    """Return whether `OverlappedLoss` averages this flat gradient.

    It does if `policy.data_parallel` is 'ddp', and if `policy.bp_update_sync` is False and gradients have to be sent.
    Ranks that share memory send nothing, so there is nothing to overlap.
    """
    sends = cfg.multi_gpu and get_world_size() > 1 and not flat.is_shared
    return uses_ddp(cfg) or (sends and not cfg.bp_update_sync)


def uses_ddp(cfg: EasyDict) -> bool:
    """Return whether the config asks for DistributedDataParallel; one process has nothing to average."""
    return cfg.data_parallel == "ddp" and get_world_size() > 1


def synchronize_batchnorm(model: nn.Module) -> nn.Module:
    """Return the model with torch's SyncBatchNorm, which counts the samples of all ranks, for its batch normalisations.

    Without gradient, when ranks act independently, the layers use their running statistics.
    """
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for module in model.modules():
        if isinstance(module, nn.SyncBatchNorm):
            module.register_forward_pre_hook(lambda module, _: module.train(torch.is_grad_enabled()) and None)
    return model


def check_data_parallel(policy: EasyDict, defaults: EasyDict) -> None:
    """Check `data_parallel` and `ddp` of `cfg.policy`.

    Args:
        policy: the compiled `cfg.policy`.
        defaults: of `policy.ddp`.

    Raises:
        ConfigError: if a value is unknown, contradicts another one, or needs a GPU.
    """
    ddp = policy.ddp
    if policy.data_parallel == "flat":
        for key in [key for key in defaults if ddp[key] != defaults[key]]:
            raise ConfigError(
                f"policy.ddp.{key}={ddp[key]!r} has an effect with policy.data_parallel='ddp' only: set that, or leave "
                "it out."
            )
        return
    if ddp.comm_hook == "powersgd" and policy.learn.on_nonfinite == "skip":
        raise ConfigError(
            "policy.ddp.comm_hook='powersgd' carries over what it did not send, a nan too: set "
            "policy.learn.on_nonfinite='stop'."
        )
    if ddp.static_graph and ddp.find_unused_parameters:
        raise ConfigError(
            "policy.ddp.static_graph=True finds unused parameters once and for all: set it or "
            "policy.ddp.find_unused_parameters=True, not both."
        )
    for key in [key for key, value in GPU_ONLY.items() if ddp[key] == value]:
        if not (policy.cuda and torch.cuda.is_available()):
            raise ConfigError(
                f"policy.ddp.{key}={ddp[key]!r} is torch's for GPUs alone: set policy.cuda=True on a machine that has "
                "one, or leave it out."
            )

"""Decides whether torch's DistributedDataParallel averages gradients, and checks the keys that configure it."""

from __future__ import annotations

import inspect

import torch
from easydict import EasyDict
from torch import nn

from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.ranks.ranks import get_world_size
from ding_lite.utils.registry import ConfigError

GPU_ONLY = {"sync_batchnorm": True, "comm_hook": "bf16"}  # values of `policy.ddp` that need a GPU


def choose_overlap(cfg: EasyDict, flat: FlatParameters) -> bool:
    """Return whether `OverlappedLoss` averages this flat gradient.

    It does if `policy.data_parallel` is 'ddp'. It also does if `policy.bp_update_sync` is False and gradients are sent
    in messages. Ranks that share memory send none, so backward has nothing to overlap with.

    Args:
        cfg: the compiled `cfg.policy`.
        flat: the parameters and gradients.
    """
    sends = cfg.multi_gpu and get_world_size() > 1 and not flat.is_shared
    return uses_ddp(cfg) or (sends and not cfg.bp_update_sync)


def uses_ddp(cfg: EasyDict) -> bool:
    """Return whether DistributedDataParallel is configured and there are several processes; `cfg` is `cfg.policy`."""
    return cfg.data_parallel == "ddp" and get_world_size() > 1


def synchronize_batchnorm(model: nn.Module) -> nn.Module:
    """Replace the model's batch normalisation by torch's SyncBatchNorm, which uses the samples of all ranks.

    While gradients are disabled, ranks act independently, and the layers use their running statistics.

    Returns:
        The model with the new layers.
    """
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for module in model.modules():
        if isinstance(module, nn.SyncBatchNorm):
            module.register_forward_pre_hook(lambda module, _: module.train(torch.is_grad_enabled()) and None)
    return model


def check_data_parallel(policy: EasyDict, defaults: EasyDict) -> None:
    """Check `data_parallel`, `ddp` and `compile` of `cfg.policy`.

    Args:
        policy: the compiled `cfg.policy`.
        defaults: the default values of `policy.ddp`.

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

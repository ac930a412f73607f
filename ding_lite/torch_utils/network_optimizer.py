"""One optimizer step on one network, the same on every rank, by our average of gradients or torch's."""

from __future__ import annotations

import atexit
import gc
import inspect
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from easydict import EasyDict
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ding_lite.torch_utils.nonfinite import StepCheck
from ding_lite.utils.dist.flat_parameters import FlatParameters
from ding_lite.utils.dist.ranks import get_world_size
from ding_lite.utils.dist.watchdog import waiting
from ding_lite.utils.registry import ConfigError

Loss = Callable[[dict[str, Any]], tuple[Tensor, dict[str, Tensor]]]
COMM_HOOKS = {"fp16": "FP16_COMPRESS", "bf16": "BF16_COMPRESS", "powersgd": "POWER_SGD"}  # torch's names for ours
GPU_ONLY = {"sync_batchnorm": True, "comm_hook": "bf16"}


class NetworkOptimizer:
    """Adam on one network; N processes take the step of one: loss, backward, average, check, clip, step.

    Only the network's own parameters are stepped. A loss that also goes through another network (an actor's, through
    the critic) has to freeze that one meanwhile: an average that overlaps with backward would mistake its gradients.

    Args:
        network: on its final device, with its final type. Its parameters become views of one tensor.
        loss: of a batch; returns the loss, scalar, and detached figures. Pure in network and batch.
        cfg: the compiled `cfg.policy`.
        learning_rate: None is that of `cfg.learn`.

    Attributes:
        flat: the network's parameters and gradients as one tensor each.
        optimizer: over `flat.parameter`; another one may take its place.
        check: whether a step may be taken.
    """

    def __init__(self, network: nn.Module, loss: Loss, cfg: EasyDict, learning_rate: float | None = None) -> None:
        self._learn, self._multi_gpu, self._loss = cfg.learn, cfg.multi_gpu, loss
        use_ddp = uses_ddp(cfg)
        overlap, share_memory = cfg.multi_gpu and not cfg.bp_update_sync, cfg.multi_gpu and not use_ddp
        self.flat = FlatParameters(network, overlap, share_memory=share_memory)
        rate = cfg.learn.learning_rate if learning_rate is None else learning_rate
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(
            [self.flat.parameter], lr=rate, weight_decay=cfg.learn.weight_decay, fused=True
        )
        self.check = StepCheck(cfg.learn.on_nonfinite, network)
        self._ddp = _create_ddp(network, loss, cfg.ddp) if use_ddp else None
        if self._ddp is not None:
            self._group = dist.group.WORLD  # see `_free_groups`
            _owners.add(self)
            atexit.unregister(_free_groups)
            atexit.register(_free_groups)

    def step(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Take one step on a batch, a dict of `[B, ...]` tensors on the network's device.

        It is left out where the loss or the gradient of a rank is not finite, see `torch_utils.nonfinite`.

        Returns:
            The loss's figures; `total_loss`; `grad_norm`, the norm of the averaged gradient before clipping.
        """
        loss, figures = self._loss(batch) if self._ddp is None else self._ddp(batch)
        self.check.note(batch, figures)
        output = figures | {"grad_norm": self._descend(loss), "total_loss": loss.detach()}
        if self.check.uncertain and "priority" in output:  # replay cannot sort by nan
            output["priority"] = output["priority"].nan_to_num(0.0, 0.0, 0.0)
        return output

    def _descend(self, loss: Tensor) -> Tensor:
        self.check.resolve()
        self.flat.zero_grad()
        self.check.mark(loss, self.flat)
        if self._ddp is not None:
            self._backward_ddp(loss, self._ddp)
        else:
            loss.backward()
            if self._multi_gpu:
                self.flat.average_grad()
        gradient, learn = self.flat.gradient, self._learn
        norm = torch.linalg.vector_norm(gradient)
        if not self.check.passes(norm, self.optimizer):
            return norm
        if learn.grad_clip_type == "clip_norm":
            scale = (learn.grad_clip_value / (norm + 1e-6)).clamp(max=1.0)
            gradient.mul_(scale.nan_to_num(1.0))  # a nan everywhere would hide which gradients are not finite
        elif learn.grad_clip_type == "clip_value":
            gradient.clamp_(-learn.grad_clip_value, learn.grad_clip_value)
        self.optimizer.step()
        return norm

    def _backward_ddp(self, loss: Tensor, ddp: DistributedDataParallel) -> None:
        with waiting():
            loss.backward()  # also averages
            try:
                ddp._check_reducer_finalized()
            except RuntimeError as error:  # else the ranks would go on apart
                raise ConfigError(
                    "policy.data_parallel='ddp': the loss does not use all parameters of the network. Set "
                    "policy.ddp.find_unused_parameters=True."
                ) from error
            dist.all_reduce(self.flat.flag)  # which is no parameter

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "skipped_updates": self.check.skipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the moments and the count of `state_dict`; learning rate and weight decay stay the config's.

        Raises:
            ValueError: if a moment is not of its parameter's shape, which torch does not look at.
        """
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({**state["optimizer"], "param_groups": groups})
        for parameter, moments in self.optimizer.state.items():
            for name, value in moments.items():
                if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                    raise ValueError(
                        f"the optimizer's {name} is of shape {tuple(value.shape)}, expected {tuple(parameter.shape)}: "
                        "it is another model's or an older ding_lite's; start from the model alone, with "
                        "policy.learn.resume_training=False"
                    )
        self.check.skipped = state["skipped_updates"]


def uses_ddp(cfg: EasyDict) -> bool:
    """Whether gradients are averaged by torch's DistributedDataParallel; one process has nothing to average."""
    return cfg.data_parallel == "ddp" and get_world_size() > 1


def synchronize_batchnorm(model: nn.Module) -> nn.Module:
    """Return the model with torch's SyncBatchNorm, which counts the samples of all ranks, for its batch normalisations.

    Without gradient, where ranks act each at its own pace, they go by their running statistics.
    """
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for module in model.modules():
        if isinstance(module, nn.SyncBatchNorm):
            module.register_forward_pre_hook(lambda module, _: module.train(torch.is_grad_enabled()) and None)
    return model


class _LossModule(nn.Module):
    """The loss as the forward pass of a module, which is what DistributedDataParallel wraps."""

    def __init__(self, network: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.network, self._loss = network, loss

    def forward(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        return self._loss(batch)


def _create_ddp(network: nn.Module, loss: Loss, cfg: EasyDict) -> DistributedDataParallel:
    """Wrap the loss so that each backward pass averages gradients, in place, into those that `FlatParameters` made."""
    known = inspect.signature(DistributedDataParallel).parameters
    options: dict[str, Any] = {
        "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False,  # since torch 2.13
        "init_sync": False,  # the policy broadcasts all its networks when they are built
        "bucket_cap_mb": cfg.bucket_cap_mb,
        "find_unused_parameters": cfg.find_unused_parameters,
        "static_graph": cfg.static_graph,
    }
    ddp = DistributedDataParallel(_LossModule(network, loss), **options)
    if cfg.comm_hook:
        from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook

        register_ddp_comm_hook(DDPCommHookType[COMM_HOOKS[cfg.comm_hook]], ddp, dist.group.WORLD)
    return ddp


_owners: weakref.WeakSet[NetworkOptimizer] = weakref.WeakSet()  # of a DistributedDataParallel, which owns the group


def _free_groups() -> None:
    """Free groups that were destroyed while DistributedDataParallel owned them, before the interpreter ends.

    Freed by it, or by the end, they wait for threads that may ask for the GIL, for ever, or abort the process. Freed as
    a Python object they wait without the GIL; not for long, since an error may have left a collective pending.
    """
    groups = []
    for owner in list(_owners):
        groups.append(owner.__dict__.pop("_group"))
        owner._ddp = None
    gc.collect()
    thread = threading.Thread(target=groups.clear, daemon=True)
    thread.start()
    thread.join(1.0)


def check_data_parallel(policy: EasyDict, defaults: EasyDict) -> None:
    """Raise `ConfigError` for what `data_parallel` and `ddp` cannot mean; `defaults` are those of `policy.ddp`."""
    ddp = policy.ddp
    if policy.data_parallel == "flat":
        for key in [key for key in defaults if ddp[key] != defaults[key]]:
            raise ConfigError(
                f"policy.ddp.{key}={ddp[key]!r} has an effect with policy.data_parallel='ddp' only: set that, or leave "
                "it out."
            )
        return
    if not policy.bp_update_sync:
        raise ConfigError(
            "policy.bp_update_sync=False goes with policy.data_parallel='flat': torch's 'ddp' always overlaps. Set one."
        )
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

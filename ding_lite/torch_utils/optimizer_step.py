"""One optimizer step, the same on every rank: loss, backward, average, check, clip, step; and a policy's optimizers."""

from __future__ import annotations

from typing import Any

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.torch_utils.data_parallel import choose_overlap, uses_ddp
from ding_lite.torch_utils.modes import Loss
from ding_lite.torch_utils.nonfinite import StepCheck
from ding_lite.torch_utils.optimizer import Rate, Trained, create_optimizer, load_moments
from ding_lite.torch_utils.overlapped_loss import OverlappedLoss
from ding_lite.utils.dist.flat_parameters import FlatParameters

ALONE = "model"  # the name of an optimizer that has no others beside it


class OptimizerStep:
    """Minimises a loss over a network; N processes take the step that one would take on the joined batch.

    The network is optimised as a whole, or in parts, each by an optimizer of its own: `{"encoder": Trained(...),
    "head": Trained(...)}`. There is one backward pass for all parts, so losses that share an encoder are added up in
    `loss`. The parts must not have parameters in common, and each is clipped by itself.

    Only these parameters are stepped. A loss that passes through another network (an actor's, through the critic)
    has to freeze that one meanwhile: an average that overlaps with backward would treat that network's gradients as
    its own.

    Args:
        network: on its final device, with its final type, or its parts by name. Parameters become views of one tensor.
        loss: of a batch; returns the loss, scalar, and detached figures. Pure in network and batch.
        cfg: the compiled `cfg.policy`.
        learning_rate: as in `Trained`, where the network is one part, as the next two.
        optimizer: see there.
        options: see there.

    Attributes:
        network: what is trained.
        flat: its parameters and gradients as one tensor each.
        optimizers: by the name of their part; the name is empty where there is one part.
        check: whether a step may be taken.
        overlaps: whether torch's DistributedDataParallel averages gradients during backward.
        steps: taken so far, also those left out.
    """

    def __init__(
        self,
        network: nn.Module | dict[str, Trained],
        loss: Loss,
        cfg: EasyDict,
        learning_rate: Rate | None = None,
        optimizer: str | type[torch.optim.Optimizer] = "adam",
        **options: Any,
    ) -> None:
        parts = network if isinstance(network, dict) else {"": Trained(network, learning_rate, optimizer, options)}
        modules = [part.network for part in parts.values()]
        self.network = modules[0] if len(modules) == 1 else nn.ModuleList(modules)
        self._learn, self._averages, self._loss = cfg.learn, cfg.multi_gpu, loss
        self.flat = FlatParameters(*modules, share_memory=cfg.multi_gpu and not uses_ddp(cfg))
        self.overlaps = choose_overlap(cfg, self.flat)
        self._overlapped = OverlappedLoss(self.network, loss, cfg, self.flat) if self.overlaps else None
        self.optimizers = {
            name: create_optimizer(parameter, part, cfg.learn)
            for (name, part), parameter in zip(parts.items(), self.flat.parts, strict=True)
        }
        self._schedules = {name: part.learning_rate for name, part in parts.items() if callable(part.learning_rate)}
        self.check = StepCheck(cfg.learn.on_nonfinite, self.network)
        self.steps = 0
        self._known_rates: dict[str, float] = {}
        self._rates: dict[str, Tensor] = {}

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer of a network that is one part. Another one over `flat.parameter` may be put in its place."""
        (only,) = self.optimizers.values()
        return only

    @optimizer.setter
    def optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        (name,) = self.optimizers
        self.optimizers[name] = optimizer

    def step(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Take one step on a batch, a dict of `[B, ...]` tensors on the network's device.

        It is left out where the loss or the gradient of a rank is not finite, see `torch_utils.nonfinite`.

        Returns:
            The loss's figures; `total_loss`; `grad_norm`, the norm of the averaged gradient before clipping.
        """
        loss, figures = (self._overlapped or self._loss)(batch)
        self.check.begin(batch, figures)
        self.flat.zero_grad()
        self.check.mark(loss, self.flat)
        if self._overlapped is not None:
            self._overlapped.backward(loss)
        else:
            loss.backward()
            if self._averages:
                self.flat.average_grad()
        norm = torch.linalg.vector_norm(self.flat.gradient)
        if self.check.passes(norm, self.optimizers.values()):
            self._clip(norm)
            self._set_rates()
            for optimizer in self.optimizers.values():
                optimizer.step()
        self.steps += 1
        return self.check.cleaned(figures | {"grad_norm": norm, "total_loss": loss.detach()})

    def _clip(self, norm: Tensor) -> None:
        """Bound the averaged gradient of each part, in place; `norm` is that of all."""
        bound, parts = self._learn.grad_clip_value, self.flat.parts
        if self._learn.grad_clip_type == "clip_value":
            self.flat.gradient.clamp_(-bound, bound)
        elif self._learn.grad_clip_type == "clip_norm":
            for gradient in (part.grad for part in parts if part.grad is not None):
                own = norm if len(parts) == 1 else torch.linalg.vector_norm(gradient)
                scale = (bound / (own + 1e-6)).clamp(max=1.0)
                gradient.mul_(scale.nan_to_num(1.0))  # a nan everywhere would hide which gradients are not finite

    def _set_rates(self) -> None:
        for name, schedule in self._schedules.items():
            for group in self.optimizers[name].param_groups:
                group["lr"] = schedule(self.steps)

    def learning_rates(self) -> dict[str, Tensor]:
        """Return the present `learning_rate`, or that of each part as `<part>_learning_rate`."""
        for name, optimizer in self.optimizers.items():
            key, rate = f"{name}_learning_rate".removeprefix("_"), optimizer.param_groups[0]["lr"]
            if self._known_rates.get(name) != rate:
                self._known_rates[name], self._rates[key] = rate, torch.tensor(rate, dtype=torch.float64)
        return self._rates

    def state_dict(self) -> dict[str, Any]:
        """Return the moments, and counts of steps and of those left out."""
        states = {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}
        counts = {"optimizer_steps": self.steps, "skipped_updates": self.check.skipped}
        return {"optimizer": states.get("") or states, **counts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the moments and counts of `state_dict`; learning rate and weight decay stay the config's.

        Raises:
            ValueError: if a moment is not of its parameter's shape, which torch does not look at.
        """
        for name, optimizer in self.optimizers.items():
            load_moments(optimizer, state["optimizer"][name] if name else state["optimizer"])
        self.check.skipped, self.steps = state["skipped_updates"], state.get("optimizer_steps", 0)


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

"""One optimizer step, the same on every rank, and the collection of a policy's optimizers."""

from __future__ import annotations

from typing import Any

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.torch_utils.data import Batch
from ding_lite.torch_utils.gradient import check_output, create_gradient, uses_ddp
from ding_lite.torch_utils.nonfinite import StepCheck
from ding_lite.torch_utils.optimizer import Loss, Trained, create_optimizer, load_moments
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.schedule import Scheduled

ALONE = "model"  # the name of a policy's only optimizer


class OptimizerStep:
    """Minimises a loss over the parameters of a network.

    A step computes the loss and its gradient, averages that over ranks, checks that it is finite, clips it, and updates
    the parameters. Several processes together take the step that one process would take on the joined batch.

    A network is trained by one optimizer, or in parts with an optimizer each: `{"encoder": Trained(...),
    "head": Trained(...)}`. All parts share one backward pass, and each is clipped separately.

    A network that the loss passes through and that this step does not train, such as the critic of an actor's loss,
    must be `frozen` meanwhile: an average that overlaps with backward would treat its gradients as this step's.

    Args:
        network: the network on its final device with its final dtype, or its parts by name. Its parameters become views
            of one tensor.
        cfg: the compiled `cfg.policy`.
        learning_rate: like `optimizer` and `options`, of a network that is not given as parts, see `Trained`.

    Attributes:
        network: the network, or a list of its parts.
        flat: all parameters as one tensor, and all gradients as one tensor.
        optimizers: torch's optimizers by the names of their parts; a network without parts has the name ''. One may be
            replaced by another optimizer of its part of `flat.parts`.
        check: decides whether a step is taken or skipped.
        gradient: computes the averaged gradient of a loss.
        steps: number of steps so far, including skipped ones.
        weight: weight of this rank's batch, if ranks have batches of different sizes: its size / the mean of all.
        prefix: the start of the names of its figures; empty if it is a policy's only optimizer.

    Raises:
        ValueError: nothing is trainable, or the parts share a parameter or differ in dtype or device.
    """

    def __init__(
        self,
        network: nn.Module | dict[str, Trained],
        cfg: EasyDict,
        learning_rate: float | None = None,
        optimizer: str | type[torch.optim.Optimizer] | None = None,
        **options: Any,
    ) -> None:
        parts = network if isinstance(network, dict) else {"": Trained(network, learning_rate, optimizer, options)}
        modules = [part.network for part in parts.values()]
        self.network = modules[0] if len(modules) == 1 else nn.ModuleList(modules)
        self._learn = cfg.learn
        self.flat = FlatParameters(*modules, share_memory=cfg.multi_gpu and not uses_ddp(cfg))
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self._changing: dict[str, dict[str, Scheduled]] = {}  # options that have a schedule
        for (name, part), parameter in zip(parts.items(), self.flat.parts, strict=True):
            self.optimizers[name], changing = create_optimizer(parameter, part, cfg.learn)
            self._changing |= {name: changing} if changing else {}
        self.check = StepCheck(cfg.learn.on_nonfinite, self.network)
        self.gradient = create_gradient(self.network, cfg, self.flat, self.check)
        self.steps, self.prefix, self.weight = 0, "", 1.0
        self._known_rates: dict[str, float] = {}
        self._rates: dict[str, Tensor] = {}

    def step(self, loss_of: Loss, batch: Batch) -> dict[str, Tensor]:
        """Take one step on a batch.

        If the loss or the gradient of any rank is not finite, no rank changes its parameters, see `StepCheck`.
        Collective: all ranks must call it.

        Args:
            loss_of: returns the loss of a batch, a scalar, and detached figures. It depends only on its batch, on
                networks, and on what it reads from its object; several losses may take turns.
            batch: a dict of `[B, ...]` tensors on the network's device.

        Returns:
            The figures that the loss returned, `total_loss`, and `grad_norm`, the Euclidean norm of the averaged
            gradient before clipping; of the optimizer 'critic', for instance, `critic_loss` and `critic_grad_norm`.

        Raises:
            NonFiniteError: a loss or gradient is not finite, and `policy.learn.on_nonfinite` is 'stop'. On a GPU it is
                raised one step later.
        """
        self._set_options()
        output = self.gradient.function(loss_of)(batch)
        loss, figures = check_output(output, loss_of, has_gradient=not self.gradient.detaches)
        self.check.begin(batch, figures, loss)
        self.gradient.compute(loss, self.weight)
        norm = self.gradient.update(self._update, self.optimizers.values())
        self.check.end()
        self.steps += 1
        return figures | {f"{self.prefix}grad_norm": norm, f"{self.prefix or 'total_'}loss": loss.detach()}

    def _update(self) -> Tensor:
        """Check and clip the averaged gradient, take the optimizers' steps, and return the gradient's norm."""
        norm = torch.linalg.vector_norm(self.flat.gradient)
        if self.check.passes(norm, self.optimizers.values()):
            self._clip(norm)
            for optimizer in self.optimizers.values():
                optimizer.step()
        return norm

    def _clip(self, norm: Tensor) -> None:
        """Clip the averaged gradient of each part in place; `norm` is that of the whole gradient."""
        if self._learn.grad_clip_type is None:
            return
        bound, parts = self._learn.grad_clip_value, self.flat.parts
        if self._learn.grad_clip_type == "clip_value":
            self.flat.gradient.clamp_(-bound, bound)
        else:
            for gradient in (part.grad for part in parts if part.grad is not None):
                own = norm if len(parts) == 1 else torch.linalg.vector_norm(gradient)
                scale = (bound / (own + 1e-6)).clamp(max=1.0)
                gradient.mul_(scale.nan_to_num(1.0))  # NaN must not spread: it shows which gradients are not finite

    def _set_options(self) -> None:
        for name, options in self._changing.items():
            for group in self.optimizers[name].param_groups:
                group.update({key: value.current() for key, value in options.items()})

    def learning_rates(self) -> dict[str, Tensor]:
        """Return the current `learning_rate`, or `<part>_learning_rate` for each part, after the prefix."""
        for name, optimizer in self.optimizers.items():
            key = self.prefix + f"{name}_learning_rate".removeprefix("_")
            rate = optimizer.param_groups[0]["lr"]
            if isinstance(rate, Tensor):  # it changes in place
                self._rates[key] = rate.double()
            elif self._known_rates.get(name) != rate:
                self._known_rates[name], self._rates[key] = rate, torch.tensor(rate, dtype=torch.float64)
        return self._rates

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizers' moments, and the numbers of steps and of skipped steps."""
        states = {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}
        for name, options in self._changing.items():  # those of now: nobody restores the last step's
            states[name]["param_groups"][0] |= {key: value.current() for key, value in options.items()}
        counts = {"optimizer_steps": self.steps, "skipped_updates": self.check.skipped}
        return {"optimizer": states.get("") or states, **counts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, see `load_moments`."""
        for name, optimizer in self.optimizers.items():
            load_moments(optimizer, state["optimizer"][name] if name else state["optimizer"])
        self.check.skipped, self.steps = state["skipped_updates"], state.get("optimizer_steps", 0)


class Optimizers(dict[str, OptimizerStep]):
    """A policy's optimizers by name, in the order in which they were added.

    The name 'model' is reserved for a policy's only optimizer. Its figures and its state have no prefix.
    """

    def add(self, name: str, optimizer: OptimizerStep) -> OptimizerStep:
        """Add an optimizer and return it. Raises `ValueError` if the name is used, or is 'model' beside others."""
        if name in self or (self and ALONE in (name, *self)):
            raise ValueError(f"optimizer '{name}' after {list(self)}: expected unique names, 'model' only if alone.")
        optimizer.prefix = "" if name == ALONE else f"{name}_"
        self[name] = optimizer
        return optimizer

    def finish(self) -> None:
        """Complete the check of the last step, see `StepCheck.finish`. On a GPU, its result is known only now."""
        for optimizer in self.values():
            optimizer.check.finish()

    def names(self) -> list[str]:
        """Return the names of the figures that the steps and `figures` return."""
        own = [name for step in self.values() for name in (f"{step.prefix or 'total_'}loss", f"{step.prefix}grad_norm")]
        return [*own, *self.figures()]

    def figures(self) -> dict[str, Tensor]:
        """Return the current learning rates, and `skipped_updates` if any update was not finite and was skipped."""
        rates: dict[str, Tensor] = {}
        for optimizer in self.values():
            rates |= optimizer.learning_rates()
        skipped = sum(optimizer.check.skipped for optimizer in self.values())
        return rates | {"skipped_updates": torch.tensor(skipped)} if skipped else rates

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer 'model', or the states of several optimizers by name in `optimizer`."""
        states = {name: optimizer.state_dict() for name, optimizer in self.items()}
        return states.get(ALONE) or {"optimizer": states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, see `OptimizerStep.load_state_dict`."""
        for name, optimizer in self.items():
            optimizer.load_state_dict(state if name == ALONE else state["optimizer"][name])

"""One optimizer step, the same on every rank, and the collection of a policy's optimizers.

A step computes the loss, runs backward, averages the gradient over ranks, checks that it is finite, clips it, and
updates the parameters.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection
from typing import Any, Literal, NamedTuple

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.torch_utils.compiled_loss import CapturedLoss, CompiledLoss
from ding_lite.torch_utils.cuda_graph import CudaGraphs, capturable
from ding_lite.torch_utils.data_parallel import OverlappedLoss, choose_overlap, uses_ddp
from ding_lite.torch_utils.nonfinite import diagnose
from ding_lite.torch_utils.optimizer import Loss, Trained, create_optimizer, load_moments
from ding_lite.utils.ranks.collectives import get_rank
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.registry import UserError

ALONE = "model"  # the name of a policy's only optimizer


class OptimizerStep:
    """Minimises a loss over the parameters of a network.

    Several processes together take the step that one process would take on the joined batch.

    A network is trained by one optimizer, or in parts with an optimizer each: `{"encoder": Trained(...),
    "head": Trained(...)}`. All parts share one backward pass, so losses that share an encoder are summed in one. The
    parts must not share parameters. Each part is clipped separately.

    If the loss passes through a network that this step does not train, such as an actor's loss through the critic,
    that network's parameters must be frozen meanwhile. Otherwise an average that overlaps with backward would treat
    that network's gradients as its own.

    Args:
        network: the network on its final device with its final dtype, or its parts by name. Its parameters become views
            of one tensor.
        cfg: the compiled `cfg.policy`.
        learning_rate: the learning rate of a network that is not given as parts, see `Trained`.
        optimizer: its kind of optimizer, see `Trained`.
        options: further arguments of its optimizer, see `Trained`.

    Attributes:
        network: the network, or a list of its parts.
        flat: all parameters as one tensor, and all gradients as one tensor.
        optimizers: torch's optimizers by the names of their parts; a network without parts has the name ''. One may be
            replaced by another optimizer of its part of `flat.parts`.
        check: decides whether a step is taken or skipped.
        overlaps: whether torch's DistributedDataParallel averages gradients during backward.
        captures: whether a GPU replays losses and updates as CUDA graphs.
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
        self._cfg, self._learn = cfg, cfg.learn
        self.flat = FlatParameters(*modules, share_memory=cfg.multi_gpu and not uses_ddp(cfg))
        self.overlaps = choose_overlap(cfg, self.flat)
        self._averages = cfg.multi_gpu and not self.overlaps
        self._wrapper: OverlappedLoss | CompiledLoss | CapturedLoss | None = None
        self._updates = CudaGraphs()
        self.captures = cfg.get("cuda_graph") == "auto" and self.flat.gradient.is_cuda
        self.captures = self.captures and not (self.overlaps or cfg.compile)
        created = [
            create_optimizer(parameter, part, cfg.learn)
            for part, parameter in zip(parts.values(), self.flat.parts, strict=True)
        ]
        self.optimizers = {name: optimizer for name, (optimizer, _) in zip(parts, created, strict=True)}
        self._changing = {name: options for name, (_, options) in zip(parts, created, strict=True) if options}
        self.check = StepCheck(cfg.learn.on_nonfinite, self.network)
        self.steps, self.prefix, self.weight = 0, "", 1.0
        self._known_rates: dict[str, float] = {}
        self._rates: dict[str, Tensor] = {}

    def step(self, loss_of: Loss, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Take one step on a batch.

        If the loss or the gradient of any rank is not finite, no rank changes its parameters, see `StepCheck`.
        Collective: all ranks must call it.

        Args:
            loss_of: returns the loss of a batch, a scalar, and detached figures. It depends only on its batch, on
                networks, and on what it reads from its object; several losses may take turns.
            batch: a dict of `[B, ...]` tensors on the network's device.

        Returns:
            The figures that the loss returned, and of the optimizer 'critic', for instance, `critic_loss` and
            `critic_grad_norm`, the Euclidean norm of the averaged gradient before clipping. Those of a policy's only
            optimizer are called `total_loss` and `grad_norm`.

        Raises:
            NonFiniteError: a loss or gradient is not finite, and `policy.learn.on_nonfinite` is 'stop'. On a GPU it is
                raised one step later.
        """
        if self.overlaps or self._cfg.compile or self.captures:
            self._wrapper = self._wrapper or self._wrap()
        if self.captures:
            self.check.finish()  # a message about the last step describes the gradient, which is replaced now
        output = loss_of(batch) if self._wrapper is None else self._wrapper(loss_of, batch)
        _check_output(output, loss_of, has_gradient=self._wrapper is None)
        loss, figures = output
        self.check.begin(batch, figures, loss)
        if not isinstance(self._wrapper, CapturedLoss):
            self.flat.zero_grad()
            self.check.mark(self.flat)
            if self._wrapper is None:
                loss.backward()
            else:
                self._wrapper.backward(loss if self.weight == 1.0 else loss * self.weight)
        if self._averages:
            if self.weight != 1.0:
                self.flat.gradient.mul_(self.weight)
            self.flat.average_grad()
        self._set_options()
        norm = self._replayed_update() if self.captures else self._update()
        self.check.end()
        self.steps += 1
        return figures | {f"{self.prefix}grad_norm": norm, f"{self.prefix or 'total_'}loss": loss.detach()}

    def _wrap(self) -> OverlappedLoss | CompiledLoss | CapturedLoss:
        if self.overlaps:
            return OverlappedLoss(self.network, self._cfg, self.flat)
        return CompiledLoss(self.flat) if self._cfg.compile else CapturedLoss(self.flat)

    def _update(self) -> Tensor:
        """Check and clip the averaged gradient, take the optimizers' steps, and return the gradient's norm."""
        norm = torch.linalg.vector_norm(self.flat.gradient)
        if self.check.passes(norm, self.optimizers.values()):
            self._clip(norm)
            for optimizer in self.optimizers.values():
                optimizer.step()
        return norm

    def _replayed_update(self) -> Tensor:
        """Return the result of `_update`, by a CUDA graph while the optimizers' numbers, which are part of it, stay."""
        groups = [group for optimizer in self.optimizers.values() for group in optimizer.param_groups]
        numbers = (value for group in groups for name, value in group.items() if name != "params")
        return self._updates.run(self._capturable_update, {}, key=(*map(id, groups), *numbers)).clone()

    def _capturable_update(self, inputs: Any) -> Tensor:
        with capturable(self.optimizers.values()):
            return self._update()

    def _clip(self, norm: Tensor) -> None:
        """Clip the averaged gradient of each part in place, as `policy.learn.grad_clip_type` says.

        Args:
            norm: the norm of the whole gradient.
        """
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
            if self._known_rates.get(name) != rate:
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
        """Restore a state that `state_dict` returned. Learning rate and weight decay remain those of the config.

        Raises:
            ValueError: a moment does not have the shape of its parameters; torch does not check this.
        """
        for name, optimizer in self.optimizers.items():
            load_moments(optimizer, state["optimizer"][name] if name else state["optimizer"])
        if self.captures:  # graphs use the moments that were replaced
            self._wrapper = None
            self._updates.forget()
        self.check.skipped, self.steps = state["skipped_updates"], state.get("optimizer_steps", 0)


def _check_output(output: Any, loss: Any, has_gradient: bool) -> None:
    """Check what a loss returned. Graphs return it without a gradient, which they have computed."""
    pair, name = output if isinstance(output, tuple) else (output,), getattr(loss, "__qualname__", type(loss).__name__)
    if len(pair) == 2 and isinstance(pair[0], Tensor) and pair[0].ndim == 0 and isinstance(pair[1], dict):
        if has_gradient and not pair[0].requires_grad:
            raise UserError(
                f"{name}: the loss has no gradient, because it does not depend on parameters that are trained, or was "
                "detached from them."
            )
        return
    got = ", ".join(f"{type(each).__name__}{list(each.shape) if isinstance(each, Tensor) else ''}" for each in pair)
    raise UserError(f"{name}: expected (loss, figures), a scalar tensor and a dict of tensors, got {got}.")


class _Step(NamedTuple):
    """The data of a step, for an error message. On a GPU, the loss is not read before there is one."""

    batch: dict[str, Any]
    figures: dict[str, Tensor]
    loss: Tensor | float


class StepCheck:
    """Decides whether an optimizer step may be taken. All ranks call the same methods in the same order.

    If this rank's loss is not finite, NaN is written to `FlatParameters.flag` before backward. The flag is part of the
    gradient, which is averaged over ranks and whose norm is computed in any case. One NaN on any rank therefore makes
    the norm NaN on all ranks, and no further collective is needed. On a CPU, the norm is read immediately. On a GPU,
    the process does not wait: fused optimizers skip such a step by themselves (`found_inf`), and the result is read
    before the gradient of the next step is zeroed.

    The order of a step is: loss, `begin`, zero the gradient, `mark`, backward, average, norm, `passes`, update, `end`.
    From the norm to the update, a GPU may replay a CUDA graph instead.

    Args:
        on_nonfinite: what follows a step that is not finite. 'stop': `passes`, or `begin` or `finish` if the result was
            not known earlier, raises `NonFiniteError` on every rank. 'skip': it is counted; the first causes a warning.
        module: the network that is trained; an error names its parameters whose gradients are not finite.

    Attributes:
        skipped: number of skipped updates.
    """

    def __init__(self, on_nonfinite: Literal["stop", "skip"], module: nn.Module) -> None:
        self.skipped = 0
        self._stop, self._module = on_nonfinite == "stop", module
        self._step = _Step({}, {}, 0.0)
        self._pending: _Step | None = None
        self._event: torch.cuda.Event | None = None  # the verdict on the pending step has arrived
        self._verdict: Tensor | None = None  # verdict on the pending step (1: skipped), in memory that a GPU can write

    def begin(self, batch: dict[str, Any], figures: dict[str, Tensor], loss: Tensor) -> None:
        """Begin a step, whose batch, figures and loss an error message would name.

        If the result of the previous step is not known yet, it is read now, so the gradient of that step must not have
        been zeroed.
        """
        self._step = _Step(batch, figures, loss.detach() if loss.is_cuda else loss.item())
        self._resolve()

    def _resolve(self) -> None:
        if self._pending is None:
            return
        step, self._pending = self._pending, None
        if self._event is not None:
            self._event.synchronize()
        if self._verdict:
            self._report(step, lag=int(step is not self._step))

    def finish(self) -> None:
        """Read the result of the last step, and release its batch."""
        self._step = _Step({}, {}, 0.0)
        self._resolve()

    def mark(self, flat: FlatParameters) -> None:
        """If the loss is not finite, make the norm of the averaged gradient not finite either.

        Call this after the gradient has been zeroed and before backward.
        """
        loss = self._step.loss
        if isinstance(loss, Tensor):
            flat.flag.copy_(loss * 0)
        elif not math.isfinite(loss):
            flat.flag.fill_(math.nan)

    def passes(self, norm: Tensor, optimizers: Collection[torch.optim.Optimizer]) -> bool:
        """Return whether to clip the gradient and step. On a GPU, fused optimizers decide later by themselves.

        `norm` is that of the averaged gradient before clipping.
        """
        if self._lags(norm, optimizers):
            found = (norm - norm).ne(0).float()  # inf - inf is nan, and nan differs from 0
            for optimizer in optimizers:
                optimizer.found_inf = found  # type: ignore[attr-defined]  # as torch's GradScaler does
            if self._verdict is None:
                self._verdict = torch.empty((), pin_memory=norm.is_cuda)
            self._verdict.copy_(found, non_blocking=True)
        elif not math.isfinite(norm.item()):
            self._report(self._step, lag=0)
            return False
        return True

    @staticmethod
    def _lags(norm: Tensor, optimizers: Collection[torch.optim.Optimizer]) -> bool:
        """Return whether all optimizers read `found_inf`, so that this process need not wait for the GPU."""
        return norm.is_cuda and all(group.get("fused") for each in optimizers for group in each.param_groups)

    def end(self) -> None:
        """End a step. If the result of the check is not known yet, it is read when the next step begins."""
        if self._verdict is None:
            return
        loss = self._step.loss
        if isinstance(loss, Tensor):
            self._event = self._event or torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(loss.device))  # without it, torch counts the GPUs again
        self._pending = self._step

    def _report(self, step: _Step, lag: int) -> None:
        if not self._stop:
            self.skipped += 1
            if self.skipped > 1:
                return
        error = diagnose(self._module, step.batch, step.figures, float(step.loss), lag)
        if self._stop:
            raise error
        if get_rank() == 0:
            message = f"An update was skipped: {error.detail}. Further ones are counted as 'skipped_updates'."
            warnings.warn(message, RuntimeWarning, stacklevel=2)


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

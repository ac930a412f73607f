"""Refuses an optimizer step that is not finite, and says what is not: loss, batch or gradients, on which rank."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.checkpoint.file import CheckpointError, save_checkpoint
from ding_lite.utils.ranks.collectives import all_gather_object, get_rank, get_world_size
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.registry import UserError
from ding_lite.utils.tree import dotted_items, tree_map

NAMES = 3  # largest number of parameters that a message lists
ADVICE = "Examine that batch, or set policy.learn.on_nonfinite='skip' to skip such updates."


class NonFiniteError(UserError):
    """A loss or gradient is NaN or infinite; raised on every rank with the same message."""

    def __init__(self, detail: str, batch: Batch, concerned: bool, lag: int) -> None:
        super().__init__(detail)
        self.detail = detail  # what is not finite, and on which rank
        self.batch, self.concerned = batch, concerned  # this rank's batch, copied, and whether it may be the cause
        self.lag = lag  # learner iterations between the step and its detection
        self.iteration: int | None = None  # learner iteration of the step; the learner sets it
        self._saved = ""

    def saved(self, path: str) -> NonFiniteError:
        """If this rank is concerned, save the batch, for `load_checkpoint`; return this error, which names the file."""
        if self.concerned:
            try:
                save_checkpoint(path, {"iteration": self.iteration, "detail": self.detail, "batch": self.batch})
                self._saved = f" The batch is saved in '{path}'."
            except CheckpointError as error:
                self._saved = f" {error}"
        return self

    def __str__(self) -> str:
        where = "" if self.iteration is None else f"Iteration {self.iteration}: "
        return f"{where}{self.detail}.{self._saved} {ADVICE}"


def diagnose(module: nn.Module, batch: Batch, figures: Figures, loss: float, lag: int) -> NonFiniteError:
    """Return the error to raise, with the same message on every rank; a collective call."""
    text = ""
    if not math.isfinite(loss):
        shown = ", ".join(describe(figures))
        text = f"the loss is {loss}" + (f" ({shown})" if shown else "")
    texts, faults = zip(*all_gather_object((text, ", ".join(describe(batch)))), strict=True)
    several = get_world_size() > 1
    sources = [rank for rank, each in enumerate(texts) if each]
    first, *others = sources or [next((rank for rank, each in enumerate(faults) if each), 0)]
    detail = texts[first] or f"the loss is finite{' on every rank' if several else ''}, its gradient is not"
    if several and sources:
        detail = f"on rank {first} {detail}"
        detail += f", also on rank{'s' * (len(others) > 1)} {', '.join(map(str, others))}" if others else ""
    if faults[first]:
        detail += f"; batch{f' of rank {first}' if several else ''}: {faults[first]}"
    gradients = {name: param.grad for name, param in module.named_parameters() if param.grad is not None}
    if names := [name for name, gradient in gradients.items() if not gradient.isfinite().all()]:
        named = ", ".join(names[:NAMES])
        detail += f"; first gradients that are not finite: {named} ({len(names)} of {len(gradients)})"
    kept = tree_map(lambda leaf: leaf.detach().to("cpu", copy=True), batch)  # a view would keep a whole collect alive
    return NonFiniteError(detail, kept, not sources or get_rank() in sources, lag)


def describe(data: dict[str, Any]) -> list[str]:
    """Describe what is not finite in nested dicts of tensors: `['reward has 3 inf of 64', 'obs.x has 1 nan of 9']`."""
    found = []
    for name, value in dotted_items(data):
        if not isinstance(value, Tensor):  # an empty dict
            continue
        counts = {"nan": int(value.isnan().sum()), "inf": int(value.isinf().sum())}
        if any(counts.values()):
            parts = " and ".join(f"{count} {kind}" for kind, count in counts.items() if count)
            found.append(f"{name} has {parts} of {value.numel()}" if value.ndim else f"{name} is {value.item()}")
    return found


class _Step(NamedTuple):
    """The data of a step, for an error message. On a GPU, the loss is not read before there is one."""

    batch: Batch
    figures: Figures
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

    def begin(self, batch: Batch, figures: Figures, loss: Tensor) -> None:
        """Begin a step, whose batch, figures and loss an error message would name.

        A result of the previous step that is not known yet is read now: its gradient must not have been zeroed.
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
        """If the loss is not finite, make the norm of the averaged gradient not finite either."""
        loss = self._step.loss
        if isinstance(loss, Tensor):
            flat.flag.copy_(loss * 0)
        elif not math.isfinite(loss):
            flat.flag.fill_(math.nan)

    def passes(self, norm: Tensor, optimizers: Collection[torch.optim.Optimizer]) -> bool:
        """Return whether to clip the gradient, whose norm is given, and step. On a GPU, the optimizers decide."""
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

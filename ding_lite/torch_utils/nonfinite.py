"""Says what is not finite in an optimizer step that `StepCheck` refused: loss, batch or gradients, on which rank."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from ding_lite.utils.checkpoint.file import CheckpointError, save_checkpoint
from ding_lite.utils.ranks.collectives import all_gather_object, get_rank, get_world_size
from ding_lite.utils.registry import UserError
from ding_lite.utils.tree import dotted_items, tree_map

NAMES = 3  # largest number of parameters that a message lists
ADVICE = "Examine that batch, or set policy.learn.on_nonfinite='skip' to skip such updates."


class NonFiniteError(UserError):
    """A loss or gradient is NaN or infinite; raised on every rank with the same message.

    Attributes:
        detail: what is not finite, and on which rank.
        batch: this rank's batch, nested dicts of copied tensors.
        concerned: whether this rank's batch may be the cause.
        lag: learner iterations between the step and its detection.
        iteration: learner iteration of the step; the learner sets it.
    """

    def __init__(self, detail: str, batch: dict[str, Any], concerned: bool, lag: int) -> None:
        super().__init__(detail)
        self.detail, self.batch, self.concerned, self.lag = detail, batch, concerned, lag
        self.iteration: int | None = None
        self._saved = ""

    def saved(self, path: str) -> NonFiniteError:
        """If this rank is concerned, save the batch; return this error, whose message then names the file.

        Args:
            path: the file, which `load_checkpoint` can read.
        """
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


def diagnose(
    module: nn.Module, batch: dict[str, Any], figures: dict[str, Tensor], loss: float, lag: int
) -> NonFiniteError:
    """Return the error to raise, with the same message on every rank; a collective call.

    It says which ranks had a loss that is not finite, what is wrong with their batches, and which gradients are not.
    """
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
    """Describe the values that are not finite in nested dicts of tensors, one string for each such tensor.

    For example: `['reward has 3 inf of 64', 'obs.image has 1 nan of 4096']`.
    """
    found = []
    for name, value in dotted_items(data):
        if not isinstance(value, Tensor):  # an empty dict
            continue
        counts = {"nan": int(value.isnan().sum()), "inf": int(value.isinf().sum())}
        if any(counts.values()):
            parts = " and ".join(f"{count} {kind}" for kind, count in counts.items() if count)
            found.append(f"{name} has {parts} of {value.numel()}" if value.ndim else f"{name} is {value.item()}")
    return found

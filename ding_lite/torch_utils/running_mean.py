"""Means of logged figures over many updates, without waiting for the device after each update."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from ding_lite.utils.ranks.collectives import allreduce_data

MOST_RECENT = 256  # updates whose figures are kept as tensors before they are read


class RunningMeans:
    """Computes means of figures over all updates since the last `take`, and over all ranks.

    A figure that only some updates return is averaged over those. Values that are not finite, such as the loss of a
    skipped update, are ignored; if a figure has no finite value, its mean is NaN. An integer figure is a count, and its
    last value is used instead of a mean.
    """

    def __init__(self) -> None:
        self._recent: defaultdict[str, list[Tensor]] = defaultdict(list)
        # sum of finite values, number of finite values, number of others; values are added one by one, so that the
        # result does not depend on when they are read
        self._sums: dict[str, list[float]] = {}
        self._waiting = 0

    def add(self, figures: dict[str, Tensor], names: list[str]) -> None:
        """Add the figures of one update.

        Args:
            figures: tensors by name; one with several elements counts as its mean.
            names: names of the figures to add; others are ignored.
        """
        for name in names:
            value = figures.get(name)
            if value is not None:
                self._recent[name].append(value.mean() if value.ndim else value)
        self._waiting += 1
        if self._waiting == MOST_RECENT:
            self._settle()

    def _settle(self) -> None:
        for name, tensors in self._recent.items():
            sums, values = self._sums.setdefault(name, [0.0, 0, 0]), torch.stack(tensors)
            if not values.is_floating_point():
                sums[:2] = float(values[-1]), 1
                continue
            for value in values.tolist():
                if math.isfinite(value):
                    sums[0] += value
                    sums[1] += 1
                else:
                    sums[2] += 1
        self._recent.clear()
        self._waiting = 0

    def take(self, names: list[str]) -> dict[str, float]:
        """Return the means of the named figures that any rank has added, and start anew; a collective call.

        Args:
            names: names of figures, the same on every rank.
        """
        self._settle()
        table = torch.tensor([self._sums.get(name, [0.0, 0, 0]) for name in names], dtype=torch.float64)
        self._sums = {}
        rows = zip(names, allreduce_data(table).tolist(), strict=True)
        return {name: total / count if count else math.nan for name, (total, count, bad) in rows if count or bad}

    def state_dict(self) -> dict[str, Any]:
        """Return the sums of this rank."""
        self._settle()
        return {name: list(sums) for name, sums in self._sums.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
        self._recent.clear()
        self._waiting, self._sums = 0, {name: list(sums) for name, sums in state.items()}

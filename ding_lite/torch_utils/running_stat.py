"""Means of logged figures, and mean and variance of data, over many updates and several ranks.

Shapes: R parts, one per rank.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.torch_utils.data import Figures
from ding_lite.utils.ranks.collectives import all_gather_tensor, allreduce_data

MOST_RECENT = 256  # updates whose figures are kept as tensors before they are read


def merge_moments(count_R: Tensor, mean_R: Tensor, square_R: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Merge the moments of R parts into those of all data.

    n = sum n_r, mean = sum n_r mean_r / n, S = sum S_r + n_r (mean_r - mean)^2, where S is the sum of squared
    deviations from the mean (Chan et al. 1983, doi:10.1080/00031305.1983.10483115). Without data, all three are 0.

    Takes n_r, mean_r and S_r `[R, ...]`, and returns n, mean and S, each `[...]`.
    """
    count = count_R.sum(0)
    mean = (count_R * mean_R).sum(0) / count.clamp(min=1)
    return count, mean, (square_R + count_R * (mean_R - mean).square()).sum(0)


def joined_moments(count: Tensor, mean: Tensor, square: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Merge n, mean and S of all ranks, float64 of one shape, in one collective; see `merge_moments`."""
    return merge_moments(*all_gather_tensor(torch.stack([count, mean, square])).unbind(1))


class RunningMeanStd(nn.Module):
    """Running mean and variance of all values that any rank has passed to `update`.

    The buffers, float64, are identical on all ranks and are part of `state_dict`. Their shape is `(F,)` for one mean
    for each of F features, `()` for one mean of all values. In an update, all earlier values together count as at most
    `window` values, so that older ones are forgotten.
    """

    mean: Tensor  # 0 before the first update
    var: Tensor  # the biased variance; 1 before the first update
    count: Tensor  # number of values so far

    def __init__(self, shape: Sequence[int] = (), window: float = math.inf) -> None:
        super().__init__()
        self._window = window
        for name, value in (("mean", 0.0), ("var", 1.0), ("count", 0.0)):
            self.register_buffer(name, torch.full(tuple(shape), value, dtype=torch.float64))

    @torch.no_grad()
    def update(self, x: Tensor, counted: Tensor | None = None) -> None:
        """Add the values `[..., *shape]` of all ranks, in one collective; ranks may have different numbers of values.

        If any value of any rank is not finite, this update is ignored, because the statistics would stay NaN.

        Args:
            x: the values.
            counted: which of them to add, bool, of the same shape; None: all.
        """
        values = x.double() if counted is None else x.double().where(counted.view_as(x), 0.0)
        values = values.reshape(-1, *self.mean.shape)
        used = torch.ones_like(values) if counted is None else counted.reshape(values.shape).double()
        number = used.sum(0)
        mean = values.sum(0) / number.clamp(min=1)
        new = joined_moments(number, mean, ((values - mean) * used).square().sum(0))
        known = self.count.clamp(max=self._window)
        old = (known, self.mean, self.var * known)
        count, mean, square = merge_moments(*(torch.stack(pair) for pair in zip(old, new, strict=True)))
        sound = square.isfinite().all() & (count > 0)  # stays on the device, so that the host does not wait
        for buffer, value in ((self.count, self.count + new[0]), (self.mean, mean), (self.var, square / count)):
            buffer.copy_(torch.where(sound, value, buffer))

    @property
    def std(self) -> Tensor:
        """sqrt(var + 1e-8), float64."""
        return (self.var + 1e-8).sqrt()

    def normalize(self, x: Tensor) -> Tensor:
        """Return (x - mean) / std, with the dtype of `x`."""
        return ((x - self.mean) / self.std).to(x.dtype)

    def denormalize(self, x: Tensor) -> Tensor:
        """Return x * std + mean, with the dtype of `x`; the inverse of `normalize`."""
        return (x * self.std + self.mean).to(x.dtype)


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

    def add(self, figures: Figures, names: list[str]) -> None:
        """Add the named figures of one update; a tensor with several elements counts as its mean."""
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
        """Return the means of the named figures that any rank has added, and start anew; all ranks pass the same."""
        self._settle()
        table = torch.tensor([self._sums.get(name, [0.0, 0, 0]) for name in names], dtype=torch.float64)
        self._sums = {}
        rows = zip(names, allreduce_data(table).tolist(), strict=True)
        return {name: total / count if count else math.nan for name, (total, count, bad) in rows if count or bad}

    def state_dict(self) -> dict[str, Any]:
        self._settle()
        return {name: list(sums) for name, sums in self._sums.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._recent.clear()
        self._waiting, self._sums = 0, {name: list(sums) for name, sums in state.items()}

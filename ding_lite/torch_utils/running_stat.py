"""Mean and variance of data that come in parts, from several ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ding_lite.utils.dist.collectives import allreduce_data
from ding_lite.utils.dist.ranks import get_rank, get_world_size


def merge_moments(count_R: Tensor, mean_R: Tensor, square_R: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Join the moments of R parts, along the first dimension; `[R, ...]` of any further shape.

    n = sum n_r, mean = sum n_r mean_r / n, S = sum S_r + n_r (mean_r - mean)^2, where S is the sum of squared
    deviations from the mean (Chan et al. 1983, doi:10.1080/00031305.1983.10483115).
    """
    count = count_R.sum(0)
    mean = (count_R * mean_R).sum(0) / count
    return count, mean, (square_R + count_R * (mean_R - mean).square()).sum(0)


def joined_moments(count: Tensor, mean: Tensor, square: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return `merge_moments` of all ranks' data, in one collective; the arguments are float64 of one shape."""
    own = torch.stack([count, mean, square])
    table_R = own.new_zeros(get_world_size(), *own.shape)
    table_R[get_rank()] = own
    return merge_moments(*allreduce_data(table_R).unbind(1))


class RunningMeanStd(nn.Module):
    """Mean and variance of all values that every rank ever passed to `update`, in all or of each feature.

    The buffers are the same on all ranks, and are saved with `state_dict`.

    Args:
        shape: of what has a mean of its own, such as `(F,)` for F features; `()` is one mean of all values.
        epsilon: added to the variance before the root is taken.

    Attributes:
        mean: of this shape, float64; 0 before the first update.
        var: the biased variance, of this shape, float64; 1 before the first update.
        count: values of each feature so far, scalar, float64.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: Sequence[int] = (), epsilon: float = 1e-8) -> None:
        super().__init__()
        self._epsilon = epsilon
        for name, value, size in (("mean", 0.0, shape), ("var", 1.0, shape), ("count", 0.0, ())):
            self.register_buffer(name, torch.full(tuple(size), value, dtype=torch.float64))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Merge the values `[..., *shape]` of all ranks, in one collective; their numbers may differ.

        If one value of any rank is not finite, all are ignored, because it would stay in the statistics.
        """
        values = x.double().reshape(-1, *self.mean.shape)
        mean = values.sum(0) / max(len(values), 1)
        number = torch.full_like(mean, len(values))
        new = joined_moments(number, mean, (values - mean).square().sum(0))
        old = (self.count.expand_as(mean), self.mean, self.var * self.count)
        count, mean, square = merge_moments(*(torch.stack(pair) for pair in zip(old, new, strict=True)))
        sound = square.isfinite().all()  # on the device, without waiting for it
        for buffer, value in ((self.count, count.max()), (self.mean, mean), (self.var, square / count)):
            buffer.copy_(torch.where(sound, value, buffer))

    @property
    def std(self) -> Tensor:
        """sqrt(var + epsilon), float64; a scalar one leaves the type of a float tensor beside it as it is."""
        return (self.var + self._epsilon).sqrt()

    def normalize(self, x: Tensor) -> Tensor:
        """Return (x - mean) / std, of x's type."""
        return ((x - self.mean) / self.std).to(x.dtype)

    def denormalize(self, x: Tensor) -> Tensor:
        """Return x * std + mean, of x's type: the inverse of `normalize`."""
        return (x * self.std + self.mean).to(x.dtype)

"""Mean and variance of data that come in parts, from several ranks."""

from __future__ import annotations

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
    """Mean and variance of all values that every rank ever passed to `update`.

    The buffers are the same on all ranks, and travel with `state_dict`.

    Attributes:
        mean: scalar, float64; 0 before the first update.
        var: the biased variance, scalar, float64; 1 before the first update.
        count: values so far, scalar, float64.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, epsilon: float = 1e-8) -> None:
        super().__init__()
        self._epsilon = epsilon
        for name, value in (("mean", 0.0), ("var", 1.0), ("count", 0.0)):
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Merge the values of all ranks, in one collective; their numbers may differ.

        If one value of any rank is not finite, all are ignored: it would be remembered for ever.
        """
        values = x.double().reshape(-1)
        mean = values.sum() / max(len(values), 1)
        new = joined_moments(values.new_tensor(float(len(values))), mean, (values - mean).square().sum())
        old = (self.count, self.mean, self.var * self.count)
        count, mean, square = merge_moments(*(torch.stack(pair) for pair in zip(old, new, strict=True)))
        sound = square.isfinite()  # on the device: nobody waits for it
        for buffer, value in ((self.count, count), (self.mean, mean), (self.var, square / count)):
            buffer.copy_(torch.where(sound, value, buffer))

    @property
    def std(self) -> Tensor:
        """sqrt(var + epsilon), a float64 scalar: beside a tensor of floats it leaves that one's type as it is."""
        return (self.var + self._epsilon).sqrt()

    def normalize(self, x: Tensor) -> Tensor:
        """Return (x - mean) / std, of x's type."""
        return ((x - self.mean) / self.std).to(x.dtype)

    def denormalize(self, x: Tensor) -> Tensor:
        """Return x * std + mean, of x's type: the inverse of `normalize`."""
        return (x * self.std + self.mean).to(x.dtype)

"""Functions that several losses and returns use: checks of shapes, picks, targets, means, sums, rescaled values."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def check_same_shape(**tensors: Tensor | None) -> None:
    """Raise ValueError if the shapes of tensors, except None, differ: `[B]` and `[B, 1]` would be broadcast."""
    shapes = {name: tensor.shape for name, tensor in tensors.items() if tensor is not None}
    if len(set(shapes.values())) > 1:
        given = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"expected tensors of the same shape, got {given}")


def pick(x_BA: Tensor, action_B: Tensor) -> Tensor:
    """Return the element of each row that an action chooses, `[...]`, for values `[..., A]` and integers `[...]`."""
    return x_BA.gather(-1, action_B.unsqueeze(-1)).squeeze(-1)


def bootstrapped(batch: Mapping[str, Tensor], next_value: Tensor) -> Tensor:
    """Return what a value should predict, r + g (1 - done) V, shaped like V. A gradient flows to V.

    Args:
        batch: `reward`, r, the discounted sum of n rewards; `done`, true where a terminal state follows them;
            `value_gamma`, g, the discount of V. Each is `[B]`, or `[T, B]` of sequences.
        next_value: V, the value of the state after the n steps, `[..., B]` or `[..., T, B]`.
    """
    return batch["reward"] + batch["value_gamma"] * next_value.masked_fill(batch["done"], 0.0)


def weighted_mean(x: Tensor, weight: Tensor | None) -> Tensor:
    """Return mean(weight * x), a scalar, not divided by the sum of the weights. None means that all weights are 1."""
    return x.mean() if weight is None else (x * weight).mean()


def sum_of_means(x_CB: Tensor, weight_B: Tensor | None = None) -> Tensor:
    """Return sum_c mean_b(weight_b x_cb), a scalar, such as the loss of several critics. None: all weights are 1.

    Of sequences `[C, T, B]`, the mean is over all steps.
    """
    return (x_CB if weight_B is None else x_CB * weight_B).flatten(1).mean(-1).sum()


@torch.no_grad()
def discounted_sum(delta_TB: Tensor, factor_TB: Tensor) -> Tensor:
    """Return the sums s_t = delta_t + factor_t s_{t+1}, with s_T = 0, without gradient; all are `[T, ...]`."""
    sum_TB = delta_TB.clone()
    sums, factors = sum_TB.unbind(), factor_TB.unbind()
    for t in range(len(sums) - 2, -1, -1):
        sums[t].addcmul_(factors[t], sums[t + 1])
    return sum_TB


def discounts(
    gamma: float, nstep: int, device: torch.device | str | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return the powers gamma^0 to gamma^n, `[n + 1]`, for `nstep` n."""
    return gamma ** torch.arange(nstep + 1, device=device, dtype=dtype)


def nstep_sums(reward_TB: Tensor, cut_TB: Tensor, discount_K: Tensor) -> tuple[Tensor, Tensor]:
    """Return the discounted sums of the rewards of up to T steps. Replay, data sets and losses use this function.

    sum_{k < m} gamma^k r_{t+k}, where m is T, or less if the trajectory is cut earlier

    Args:
        reward_TB: `[T, ...]`, the rewards r_t to r_{t+T-1}.
        cut_TB: `[T, ...]`, true where the trajectory is cut after the step.
        discount_K: at least T powers of gamma, see `discounts`; `[K, ...]` if gamma differs between columns.

    Returns:
        The sums and the numbers m, both `[...]`. The value after the steps is discounted by gamma^m.
    """
    counts_TB = cut_TB.cumsum(0) <= cut_TB  # no cut before this step
    discount_TB = discount_K[: len(reward_TB)]
    discount_TB = discount_TB.view(*discount_TB.shape, *[1] * (reward_TB.ndim - discount_TB.ndim))
    return (reward_TB * counts_TB * discount_TB).sum(0), counts_TB.sum(0)


def value_transform(x: Tensor, eps: float = 1e-2) -> Tensor:
    """Return h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x (Pohlen et al. 2018, arXiv:1805.11593, prop. A.2).

    Large values are as easy to learn as small ones. The smallest slope is eps, which keeps the inverse continuous.
    """
    return x.sign() * ((x.abs() + 1.0).sqrt() - 1.0) + eps * x


def value_inv_transform(x: Tensor, eps: float = 1e-2) -> Tensor:
    """Return the inverse of `value_transform` with the same eps, above 0.

    h^-1(x) = sign(x) (((sqrt(1 + 4 eps (|x| + 1 + eps)) - 1) / (2 eps))^2 - 1)
    """
    root = ((1.0 + 4.0 * eps * (x.abs() + 1.0 + eps)).sqrt() - 1.0) / (2.0 * eps)
    return x.sign() * (root.square() - 1.0)

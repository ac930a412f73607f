"""Temporal-difference losses.

Shapes: T steps of an n-step return, B samples, A discrete actions, K quantiles. A name's suffix says its dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class q_nstep_td_data(NamedTuple):  # noqa: N801 (DI-engine's name)
    """Input of `q_nstep_td_error`.

    Attributes:
        q: `[B, A]`, Q(s_t, .) of the network that learns; the gradient flows through it.
        next_n_q: `[B, A]`, Q(s_{t+n}, .) of the network that evaluates, usually the target network.
        action: `[B]`, integer actions taken at t.
        next_n_action: `[B]`, integer actions chosen at t+n; the online network's argmax makes it double Q-learning.
        reward: `[T, B]` rewards of the n steps, or `[B]` discounted sums of them with `cum_reward=True`.
        done: `[B]`, true where the n steps ended in a terminal state: nothing is bootstrapped there.
        weight: `[B]` importance weights, or None for ones.
    """

    q: Tensor
    next_n_q: Tensor
    action: Tensor
    next_n_action: Tensor
    reward: Tensor
    done: Tensor
    weight: Tensor | None = None


def discounts(
    gamma: float, nstep: int, device: torch.device | str | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return gamma^0 to gamma^n, `[n + 1]`."""
    return gamma ** torch.arange(nstep + 1, device=device, dtype=dtype)


def nstep_sums(reward_TB: Tensor, cut_TB: Tensor, discount_K: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the rewards of up to T steps, for replay, data sets and losses alike.

    The sum is sum_{k < m} gamma^k r_{t+k}, where m is T, or less where the trajectory is cut before.

    Args:
        reward_TB: `[T, *]`, the rewards r_t to r_{t+T-1}.
        cut_TB: `[T, *]`, true where the trajectory is cut after the step: later rewards do not count.
        discount_K: at least `[T]`, powers of gamma, see `discounts`.

    Returns:
        The sums `[*]`, and the number m of rewards in each, `[*]`: what follows is discounted by gamma^m.
    """
    counts_TB = cut_TB.cumsum(0) <= cut_TB  # no cut before this step
    discount_TB = discount_K[: len(reward_TB)].view(-1, *[1] * (reward_TB.ndim - 1))
    return (reward_TB * counts_TB * discount_TB).sum(0), counts_TB.sum(0)


def nstep_return(reward_TB: Tensor, gamma: float) -> Tensor:
    """Return the sum over k of gamma^k r_{t+k}, `[B]`, of rewards `[T, B]` that no end of a trajectory cuts."""
    discount_K = discounts(gamma, len(reward_TB), reward_TB.device, reward_TB.dtype)
    return nstep_sums(reward_TB, torch.zeros_like(reward_TB, dtype=torch.bool), discount_K)[0]


def q_nstep_td_error(
    data: q_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: Tensor | None = None,
    criterion: Callable[..., Tensor] = functional.mse_loss,
) -> tuple[Tensor, Tensor]:
    """n-step Q-learning loss.

    target = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) Q'(s_{t+n}, a_{t+n}); double Q-learning (van Hasselt et al.
    2016, arXiv:1509.06461) when a_{t+n} is the online argmax and Q' the target network. The loss is the weighted mean
    of `criterion(Q(s_t, a_t), target, reduction='none')`.

    Args:
        data: see `q_nstep_td_data`.
        gamma: discount per environment step.
        cum_reward: whether `reward` is summed over the n steps already.
        criterion: called as `torch.nn.functional.mse_loss` is.
        nstep: T, used where `value_gamma` is None.
        value_gamma: `[B]` discount of the bootstrap where the n steps may have been cut short: gamma^(steps taken).

    Returns:
        The scalar loss, and the TD errors `target - Q(s_t, a_t)`, `[B]`, detached (|.| of them is the priority of
        Schaul et al. 2016, arXiv:1511.05952).

    Raises:
        ValueError: q and next_n_q are not both `[B, A]`, or reward does not fit `cum_reward`.
    """
    q, next_n_q, action, next_n_action, reward, done, weight = data
    if q.ndim != 2 or q.shape != next_n_q.shape:
        raise ValueError(f"q and next_n_q must both be [B, A], got {tuple(q.shape)} and {tuple(next_n_q.shape)}")
    return_B, discount_B = _return_and_discount(reward, gamma, nstep, cum_reward, value_gamma)
    q_B = q.gather(1, action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        next_q_B = next_n_q.gather(1, next_n_action.unsqueeze(1)).squeeze(1)
        target_B = return_B + discount_B * next_q_B.masked_fill(done.bool(), 0.0)
    if weight is None:
        loss = criterion(q_B, target_B, reduction="mean")
    else:
        loss = (criterion(q_B, target_B, reduction="none") * weight).mean()
    return loss, target_B - q_B.detach()


def _return_and_discount(
    reward: Tensor, gamma: float, nstep: int, cum_reward: bool, value_gamma: Tensor | None
) -> tuple[Tensor, Tensor | float]:
    """Return the discounted sum of the n steps' rewards, `[B]`, and the discount of what follows them."""
    if reward.ndim != (1 if cum_reward else 2):
        raise ValueError(f"reward must be {'[B]' if cum_reward else '[T, B]'}, got shape {tuple(reward.shape)}")
    return_B = reward if cum_reward else nstep_return(reward, gamma)
    return return_B, gamma**nstep if value_gamma is None else value_gamma


class qrdqn_nstep_td_data(NamedTuple):  # noqa: N801 (DI-engine's name)
    """Input of `qrdqn_nstep_td_error`.

    Attributes:
        q: `[B, A, K]`, quantiles of the return of the network that learns; the gradient flows through it.
        next_n_q: `[B, A, K]`, those of s_{t+n} by the network that evaluates, usually the target network.
        action: `[B]`, as the next four in `q_nstep_td_data`.
        next_n_action: `[B]`.
        reward: `[T, B]`, or `[B]` with `cum_reward=True`.
        done: `[B]`.
        tau: `[B, K, 1]`, which quantiles `q` are, in (0, 1).
        weight: `[B]` importance weights, or None for ones.
    """

    q: Tensor
    next_n_q: Tensor
    action: Tensor
    next_n_action: Tensor
    reward: Tensor
    done: Tensor
    tau: Tensor
    weight: Tensor | None = None


def qrdqn_nstep_td_error(
    data: qrdqn_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    value_gamma: Tensor | None = None,
    cum_reward: bool = False,
    kappa: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """n-step quantile regression loss (Dabney et al. 2018, arXiv:1710.10044, eq. 10 and algorithm 1).

    target_j = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) theta'_j(s_{t+n}, a_{t+n}), u_ij = target_j - theta_i; the
    loss is the weighted mean over samples of sum_i mean_j |tau_i - 1{u_ij < 0}| L(u_ij), with Huber's L: u^2 / 2 up to
    |u| = kappa, and kappa (|u| - kappa / 2) beyond.

    Args:
        data: see `qrdqn_nstep_td_data`.
        gamma: discount per environment step.
        nstep: T, used where `value_gamma` is None.
        value_gamma: as the next, see `q_nstep_td_error`.
        cum_reward: see there.
        kappa: 0 makes L(u) = |u|, whose minimum are the quantiles themselves.

    Returns:
        The scalar loss, and the unweighted loss of each sample, `[B]`, detached.

    Raises:
        ValueError: q and next_n_q are not both `[B, A, K]`, or reward does not fit `cum_reward`.
    """
    q, next_n_q, action, next_n_action, reward, done, tau, weight = data
    if q.ndim != 3 or q.shape != next_n_q.shape:
        raise ValueError(f"q and next_n_q must both be [B, A, K], got {tuple(q.shape)} and {tuple(next_n_q.shape)}")
    return_B, discount_B = _return_and_discount(reward, gamma, nstep, cum_reward, value_gamma)
    sample_B = torch.arange(len(q), device=q.device)
    theta_BK1 = q[sample_B, action, :, None]
    with torch.no_grad():
        next_theta_KB = next_n_q[sample_B, next_n_action].masked_fill(done.bool()[:, None], 0.0).t()
        target_B1K = (return_B + discount_B * next_theta_KB).t()[:, None]
        weight_BKK = (tau - (target_B1K < theta_BK1).to(q.dtype)).abs()
    theta_BKK, target_BKK = torch.broadcast_tensors(theta_BK1, target_B1K)
    if kappa > 0:
        error_BKK = functional.huber_loss(theta_BKK, target_BKK, reduction="none", delta=kappa)
    else:
        error_BKK = (target_BKK - theta_BKK).abs()
    loss_B = (weight_BKK * error_BKK).mean(2).sum(1)
    loss = loss_B.mean() if weight is None else (loss_B * weight).mean()
    return loss, loss_B.detach()

"""Temporal-difference losses of the values of discrete actions.

Shapes: T steps of an n-step return, B samples, A discrete actions. The suffix of a name gives its dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.rl_utils.common import reward_sum


class q_nstep_td_data(NamedTuple):  # noqa: N801 (DI-engine's name)
    """Input of `q_nstep_td_error`.

    Attributes:
        q: `[B, A]`, Q(s_t, .) of the online network; the gradient flows through it.
        next_n_q: `[B, A]`, Q(s_{t+n}, .), usually of the target network.
        action: `[B]`, integer actions taken at t.
        next_n_action: `[B]`, integer actions chosen at t+n. Double Q-learning uses the online network's argmax.
        reward: `[T, B]`, rewards of the n steps, or with `cum_reward=True` `[B]`, their discounted sums.
        done: `[B]`, true where the n steps ended in a terminal state, so that the bootstrap is zero.
        weight: `[B]`, importance weights; None: all are 1.
    """

    q: Tensor
    next_n_q: Tensor
    action: Tensor
    next_n_action: Tensor
    reward: Tensor
    done: Tensor
    weight: Tensor | None = None


def q_nstep_td_error(
    data: q_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: Tensor | None = None,
    criterion: Callable[..., Tensor] = functional.mse_loss,
) -> tuple[Tensor, Tensor]:
    """Return the loss of n-step Q-learning.

    target = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) Q'(s_{t+n}, a_{t+n})
    loss = mean(w criterion(Q(s_t, a_t), target))

    This is double Q-learning (van Hasselt et al. 2016, arXiv:1509.06461) if a_{t+n} is the argmax of the learning
    network and Q' is the target network.

    Args:
        data: see `q_nstep_td_data`.
        gamma: discount per env step.
        nstep: n, used if `value_gamma` is None.
        cum_reward: whether `reward` is already summed over the n steps.
        value_gamma: `[B]`, discount of the bootstrap, gamma^m for m rewards in the sum; None: gamma^n.
        criterion: a function or a module, see `criterion_values`.

    Returns:
        The scalar loss, and the TD errors target - Q(s_t, a_t) `[B]`, detached. Their absolute values are the
        priorities of Schaul et al. 2016, arXiv:1511.05952.

    Raises:
        ValueError: q and next_n_q are not both `[B, A]`, or the shape of reward contradicts `cum_reward`.
    """
    q, next_n_q, action, next_n_action, reward, done, weight = data
    if q.ndim != 2 or q.shape != next_n_q.shape:
        raise ValueError(f"q and next_n_q must both be [B, A], got {tuple(q.shape)} and {tuple(next_n_q.shape)}")
    return_B, discount_B = return_and_discount(reward, gamma, nstep, cum_reward, value_gamma)
    q_B = q.gather(1, action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        next_q_B = next_n_q.gather(1, next_n_action.unsqueeze(1)).squeeze(1)
        target_B = return_B + discount_B * next_q_B.masked_fill(done.bool(), 0.0)
    loss_B = criterion_values(criterion, q_B, target_B)
    return (loss_B if weight is None else loss_B * weight).mean(), target_B - q_B.detach()


def return_and_discount(
    reward: Tensor, gamma: float, nstep: int, cum_reward: bool, value_gamma: Tensor | None
) -> tuple[Tensor, Tensor | float]:
    """Return the discounted sum of the rewards of n steps, `[B]`, and the discount of the value after them.

    Arguments as for `q_nstep_td_error`.

    Raises:
        ValueError: reward is not `[B]` with `cum_reward`, or not `[T, B]` without.
    """
    if reward.ndim != (1 if cum_reward else 2):
        raise ValueError(f"reward must be {'[B]' if cum_reward else '[T, B]'}, got shape {tuple(reward.shape)}")
    return_B = reward if cum_reward else reward_sum(reward, gamma)
    return return_B, gamma**nstep if value_gamma is None else value_gamma


def criterion_values(criterion: Callable[..., Tensor], prediction: Tensor, target: Tensor) -> Tensor:
    """Return the value of a criterion for every element, shaped like `prediction`.

    Args:
        criterion: a function with the signature of `torch.nn.functional.mse_loss`, or, as in DI-engine, a module such
            as `torch.nn.MSELoss(reduction="none")`.
        prediction: what the gradient flows through.
        target: a constant, shaped like `prediction`.

    Raises:
        ValueError: the module reduces its result to another shape.
    """
    if not isinstance(criterion, nn.Module):
        return criterion(prediction, target, reduction="none")
    values: Tensor = criterion(prediction, target)
    if values.shape != prediction.shape:
        raise ValueError(f"criterion must return one value per element: create {criterion} with reduction='none'")
    return values

"""Temporal-difference losses under DI-engine's names: of one step, and of state values.

The loss of every function is mean(w criterion(estimate, target)), and the target is a constant. As in DI-engine, the
second result of the losses of state values is the criterion of each sample.

Shapes: T steps of an n-step return, B samples, A discrete actions, M agents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.common import check_same_shape, reward_sum, weighted_mean
from ding_lite.rl_utils.td import (
    criterion_values,
    q_nstep_td_data,
    q_nstep_td_error,
)

Criterion = Callable[..., Tensor]


class q_1step_td_data(NamedTuple):  # noqa: N801 (DI-engine's name, like the ones below)
    """Input of `q_1step_td_error`.

    Attributes:
        q: `[B, A]`, Q(s, .) of the online network; the gradient flows through it.
        next_q: `[B, A]`, Q'(s', .).
        act: `[B]`, integer actions taken in s.
        next_act: `[B]`, integer actions chosen in s'.
        reward: `[B]`.
        done: `[B]`, true where s' is terminal.
        weight: `[B]`, importance weights; None: all are 1.
    """

    q: Tensor
    next_q: Tensor
    act: Tensor
    next_act: Tensor
    reward: Tensor
    done: Tensor
    weight: Tensor | None = None


def q_1step_td_error(data: q_1step_td_data, gamma: float, criterion: Criterion = functional.mse_loss) -> Tensor:
    """Return the scalar loss of Q(s, a) against r + gamma (1 - done) Q'(s', a').

    Args:
        data: see `q_1step_td_data`.
        gamma: discount per env step.
        criterion: a function or a module, see `criterion_values`.

    Raises:
        ValueError: q and next_q are not both `[B, A]`, or reward is not `[B]`.
    """
    return q_nstep_td_error(q_nstep_td_data(*data), gamma, 1, cum_reward=True, criterion=criterion)[0]


class q_v_1step_td_data(NamedTuple):  # noqa: N801
    """Input of `q_v_1step_td_error`.

    Attributes:
        q: `[B, A]`, or `[B, M, A]`, Q(s, .); the gradient flows through it.
        v: `[B]`, or `[B, M]`, V(s').
        act: `[B]`, or `[B, M]`, integer actions taken in s.
        reward: `[B]`.
        done: `[B]`, true where s' is terminal.
        weight: shaped like `act`, importance weights; None: all are 1.
    """

    q: Tensor
    v: Tensor
    act: Tensor
    reward: Tensor
    done: Tensor
    weight: Tensor | None = None


def q_v_1step_td_error(
    data: q_v_1step_td_data, gamma: float, criterion: Criterion = functional.mse_loss
) -> tuple[Tensor, Tensor]:
    """Return the loss of Q(s, a) against r + gamma (1 - done) V(s'), as discrete soft actor-critic needs it.

    Args:
        data: see `q_v_1step_td_data`.
        gamma: discount per env step.
        criterion: a function or a module, see `criterion_values`.

    Returns:
        The scalar loss, and the criterion of each sample, shaped like `act`, detached.

    Raises:
        ValueError: shapes differ.
    """
    q, v, act, reward, done, weight = data
    check_same_shape(q=q[..., 0], v=v, act=act, weight=weight)
    q_taken = q.gather(-1, act.unsqueeze(-1)).squeeze(-1)
    return _one_step_error(q_taken, v, reward, done, weight, gamma, criterion)


class v_1step_td_data(NamedTuple):  # noqa: N801
    """Input of `v_1step_td_error`.

    Attributes:
        v: `[B]`, or `[B, M]`, V(s); the gradient flows through it.
        next_v: shaped like `v`, V(s').
        reward: `[B]`, or shaped like `v`.
        done: shaped like `reward`, true where s' is terminal; None: nowhere.
        weight: shaped like `v`, importance weights; None: all are 1.
    """

    v: Tensor
    next_v: Tensor
    reward: Tensor
    done: Tensor | None = None
    weight: Tensor | None = None


def v_1step_td_error(
    data: v_1step_td_data, gamma: float, criterion: Criterion = functional.mse_loss
) -> tuple[Tensor, Tensor]:
    """Return the loss of V(s) against r + gamma (1 - done) V(s').

    Args:
        data: see `v_1step_td_data`.
        gamma: discount per env step.
        criterion: a function or a module, see `criterion_values`.

    Returns:
        The scalar loss, and the criterion of each sample, shaped like `v`, detached.

    Raises:
        ValueError: shapes differ.
    """
    v, next_v, reward, done, weight = data
    check_same_shape(v=v, next_v=next_v, weight=weight)
    return _one_step_error(v, next_v, reward, done, weight, gamma, criterion)


def _one_step_error(
    estimate: Tensor,
    next_value: Tensor,
    reward: Tensor,
    done: Tensor | None,
    weight: Tensor | None,
    gamma: float,
    criterion: Criterion,
) -> tuple[Tensor, Tensor]:
    """Return the loss of an estimate `[B]`, or `[B, M]`, against r + gamma (1 - done) V', and its criterion values."""
    done = torch.zeros_like(reward) if done is None else done
    if reward.ndim < estimate.ndim:  # one reward for all agents
        reward, done = reward.unsqueeze(-1).expand_as(estimate), done.unsqueeze(-1).expand_as(estimate)
    check_same_shape(estimate=estimate, reward=reward, done=done)
    target = (reward + gamma * next_value.masked_fill(done.bool(), 0.0)).detach()
    values = criterion_values(criterion, estimate, target)
    return weighted_mean(values, weight), values.detach()


class nstep_return_data(NamedTuple):  # noqa: N801
    """Rewards and the value after them, input of `nstep_return`.

    Attributes:
        reward: `[T, B]`, the rewards r_t to r_{t+T-1}.
        next_value: `[B]`, V(s_{t+T}).
        done: `[B]`, true where s_{t+T} is terminal.
    """

    reward: Tensor
    next_value: Tensor
    done: Tensor


def nstep_return(
    data: Tensor | nstep_return_data, gamma: float, nstep: int | None = None, value_gamma: Tensor | float | None = None
) -> Tensor:
    """Return the discounted sums of the rewards of T steps of the same trajectory, sum_k gamma^k r_{t+k}, `[B]`.

    With `nstep_return_data`, gamma^T (1 - done) V(s_{t+T}) is added.

    Args:
        data: the rewards `[T, B]`, or `nstep_return_data`.
        gamma: discount per env step.
        nstep: T, as a check; None: any number of rewards.
        value_gamma: `[B]`, discount of the value; None: gamma^T.

    Raises:
        ValueError: there are not `nstep` rewards.
    """
    if isinstance(data, Tensor):
        return reward_sum(data, gamma)
    reward_TB, next_value_B, done_B = data
    if nstep not in (None, len(reward_TB)):
        raise ValueError(f"expected the rewards of nstep={nstep} steps, got {len(reward_TB)}")
    discount_B = gamma ** len(reward_TB) if value_gamma is None else value_gamma
    return reward_sum(reward_TB, gamma) + discount_B * next_value_B.masked_fill(done_B.bool(), 0.0)


class v_nstep_td_data(NamedTuple):  # noqa: N801
    """Input of `v_nstep_td_error`.

    Attributes:
        v: `[B]`, V(s_t); the gradient flows through it.
        next_n_v: `[B]`, V(s_{t+n}).
        reward: `[T, B]`, rewards of the n steps.
        done: `[B]`, true where the n steps ended in a terminal state.
        weight: `[B]`, importance weights; None: all are 1.
        value_gamma: `[B]` or a number, discount of V(s_{t+n}); None: gamma^n.
    """

    v: Tensor
    next_n_v: Tensor
    reward: Tensor
    done: Tensor
    weight: Tensor | None = None
    value_gamma: Tensor | float | None = None


def v_nstep_td_error(
    data: v_nstep_td_data, gamma: float, nstep: int = 1, criterion: Criterion = functional.mse_loss
) -> tuple[Tensor, Tensor]:
    """Return the loss of V(s_t) against sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) V(s_{t+n}).

    Args:
        data: see `v_nstep_td_data`.
        gamma: discount per env step.
        nstep: n, the number of rewards.
        criterion: a function or a module, see `criterion_values`.

    Returns:
        The scalar loss, and the criterion of each sample, `[B]`, detached.

    Raises:
        ValueError: shapes differ, or there are not n rewards.
    """
    v, next_n_v, reward, done, weight, value_gamma = data
    gamma_B = value_gamma if isinstance(value_gamma, Tensor) else None
    check_same_shape(v=v, next_n_v=next_n_v, done=done, weight=weight, value_gamma=gamma_B)
    target_B = nstep_return(nstep_return_data(reward, next_n_v, done), gamma, nstep, value_gamma).detach()
    values_B = criterion_values(criterion, v, target_B)
    return weighted_mean(values_B, weight), values_B.detach()

"""Temporal-difference losses of the values of states and of discrete actions, with DI-engine's names and arguments.

The docstring of `rl_utils` explains the arguments that the functions have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.rl_utils.common import check_same_shape, discounts, nstep_sums, pick, weighted_mean
from ding_lite.rl_utils.rescaling import value_inv_transform, value_transform

Criterion = Callable[..., Tensor]


class q_nstep_td_data(NamedTuple):  # noqa: N801 (DI-engine's name, like those below)
    """Input of `q_nstep_td_error`.

    Attributes:
        q: `[B, A]`, Q(s_t, .) of the online network; the gradient flows through it.
        next_n_q: `[B, A]`, Q(s_{t+n}, .), usually of the target network.
        action: `[B]`, integer actions taken at t.
        next_n_action: `[B]`, integer actions chosen at t+n. Double Q-learning uses the online network's argmax.
        reward: `[T, B]`, rewards of the n steps, or with `cum_reward=True` `[B]`, their discounted sums.
        done: `[B]`, true where the n steps ended in a terminal state, so that the bootstrap is zero.
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
    criterion: Criterion = functional.mse_loss,
) -> tuple[Tensor, Tensor]:
    """Return the loss of n-step Q-learning, and the TD errors target - Q(s_t, a_t) `[B]`, detached.

    target = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) Q'(s_{t+n}, a_{t+n})
    loss = mean(w criterion(Q(s_t, a_t), target))

    This is double Q-learning (van Hasselt et al. 2016, arXiv:1509.06461) if a_{t+n} is the argmax of the learning
    network and Q' is the target network. The absolute errors are the priorities of Schaul et al. 2016,
    arXiv:1511.05952.
    """
    q_B, next_q_B = pick_values(data)
    target_B = nstep_target(data, next_q_B, gamma, nstep, cum_reward=cum_reward, value_gamma=value_gamma)
    return td_error(q_B, target_B, data.weight, criterion)


def pick_values(data: Any, dims: str = "B, A") -> tuple[Tensor, Tensor]:
    """Return Q of the actions taken, and Q of the actions chosen at t+n, detached.

    Args:
        data: a `q_nstep_td_data`.
        dims: the dimensions that both of its values must have, separated by commas.
    """
    q, next_n_q = data.q, data.next_n_q.detach()
    if q.ndim != len(dims.split(",")) or q.shape != next_n_q.shape:
        raise ValueError(f"q and next_n_q must both be [{dims}], got {tuple(q.shape)} and {tuple(next_n_q.shape)}")
    return pick(q, data.action), pick(next_n_q, data.next_n_action)


def nstep_target(
    data: Any, next_value: Tensor, gamma: float, nstep: int, cum_reward: bool, value_gamma: Tensor | None
) -> Tensor:
    """Return sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) V, `[..., B]`, without gradient, for values V `[..., B]`.

    Args:
        data: has `reward` and `done`, as `q_nstep_td_data`.
        next_value: V.
        gamma: see the package's docstring for this and the following.
        nstep: n.
        cum_reward: whether `reward` has the sums.
        value_gamma: `[B]`, or None.
    """
    if data.reward.ndim != (1 if cum_reward else 2):
        raise ValueError(f"reward must be {'[B]' if cum_reward else '[T, B]'}, got shape {tuple(data.reward.shape)}")
    with torch.no_grad():
        return_B = data.reward if cum_reward else nstep_return(data.reward, gamma)
        discount_B = gamma**nstep if value_gamma is None else value_gamma
        return return_B + discount_B * next_value.masked_fill(data.done.bool(), 0.0)


def td_error(value: Tensor, target: Tensor, weight: Tensor | None, criterion: Criterion) -> tuple[Tensor, Tensor]:
    """Return mean(w criterion(value, target)), a scalar, and target - value, detached."""
    return weighted_mean(criterion_values(criterion, value, target), weight), target - value.detach()


def criterion_values(criterion: Criterion, prediction: Tensor, target: Tensor) -> Tensor:
    """Return the value of a criterion for every element, shaped like `prediction`.

    Raises:
        ValueError: the criterion is a module that reduces its result to another shape.
    """
    if not isinstance(criterion, nn.Module):
        return criterion(prediction, target, reduction="none")
    values: Tensor = criterion(prediction, target)
    if values.shape != prediction.shape:
        raise ValueError(f"criterion must return one value per element: create {criterion} with reduction='none'")
    return values


def symlog(x: Tensor) -> Tensor:
    """Return sign(x) log(|x| + 1) (Hafner et al. 2023, arXiv:2301.04104, eq. 9)."""
    return x.sign() * torch.log1p(x.abs())


def inv_symlog(x: Tensor) -> Tensor:
    """Return the inverse of `symlog`, sign(x) (exp(|x|) - 1)."""
    return x.sign() * torch.expm1(x.abs())


def q_nstep_td_error_with_rescale(
    data: q_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    value_gamma: Tensor | None = None,
    criterion: Criterion = functional.mse_loss,
    trans_fn: Callable[[Tensor], Tensor] = value_transform,
    inv_trans_fn: Callable[[Tensor], Tensor] = value_inv_transform,
    cum_reward: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the loss of `q_nstep_td_error` for rescaled values (Pohlen et al. 2018, arXiv:1805.11593), and the errors.

    target = h(sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) h^-1(Q'(s_{t+n}, a_{t+n})))

    `q`, `next_n_q` and the errors are rescaled, `reward` is not. h is `trans_fn`, h^-1 `inv_trans_fn`.
    """
    q_B, next_q_B = pick_values(data)
    with torch.no_grad():
        next_q_B = inv_trans_fn(next_q_B)
        target_B = nstep_target(data, next_q_B, gamma, nstep, cum_reward=cum_reward, value_gamma=value_gamma)
        target_B = trans_fn(target_B)
    return td_error(q_B, target_B, data.weight, criterion)


class q_1step_td_data(NamedTuple):  # noqa: N801
    """Input of `q_1step_td_error`: the fields of `q_nstep_td_data` for one step, with `reward` `[B]`."""

    q: Tensor
    next_q: Tensor
    act: Tensor
    next_act: Tensor
    reward: Tensor
    done: Tensor
    weight: Tensor | None = None


def q_1step_td_error(data: q_1step_td_data, gamma: float, criterion: Criterion = functional.mse_loss) -> Tensor:
    """Return the scalar loss of Q(s, a) against r + gamma (1 - done) Q'(s', a'), see `q_nstep_td_error`."""
    return q_nstep_td_error(q_nstep_td_data._make(data), gamma, cum_reward=True, criterion=criterion)[0]


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

    The second result is the criterion of each sample, shaped like `act`, detached.
    """
    check_same_shape(q=data.q[..., 0], v=data.v, act=data.act, weight=data.weight)
    return _one_step_error(pick(data.q, data.act), data.v, data, gamma, criterion)


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
    """Return the loss of V(s) against r + gamma (1 - done) V(s'), and the criterion of each sample, detached."""
    check_same_shape(v=data.v, next_v=data.next_v, weight=data.weight)
    return _one_step_error(data.v, data.next_v, data, gamma, criterion)


def _one_step_error(
    estimate: Tensor, next_value: Tensor, data: Any, gamma: float, criterion: Criterion
) -> tuple[Tensor, Tensor]:
    """Return the loss of an estimate `[B]`, or `[B, M]`, against r + gamma (1 - done) V', and its criterion values."""
    reward = data.reward
    done = torch.zeros_like(reward) if data.done is None else data.done
    if reward.ndim < estimate.ndim:  # one reward for all agents
        reward, done = reward.unsqueeze(-1).expand_as(estimate), done.unsqueeze(-1).expand_as(estimate)
    check_same_shape(estimate=estimate, reward=reward, done=done)
    target = (reward + gamma * next_value.masked_fill(done.bool(), 0.0)).detach()
    values = criterion_values(criterion, estimate, target)
    return weighted_mean(values, data.weight), values.detach()


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

    With `nstep_return_data` instead of the rewards `[T, B]`, gamma^T (1 - done) V(s_{t+T}) is added. `nstep` is T, as a
    check; None: any number of rewards.

    Raises:
        ValueError: there are not `nstep` rewards.
    """
    reward_TB = data if isinstance(data, Tensor) else data.reward
    discount_K = discounts(gamma, len(reward_TB), device=reward_TB.device, dtype=reward_TB.dtype)
    sum_B, _ = nstep_sums(reward_TB, torch.zeros_like(reward_TB, dtype=torch.bool), discount_K)
    if isinstance(data, Tensor):
        return sum_B
    if nstep not in (None, len(reward_TB)):
        raise ValueError(f"expected the rewards of nstep={nstep} steps, got {len(reward_TB)}")
    discount_B = gamma ** len(reward_TB) if value_gamma is None else value_gamma
    return sum_B + discount_B * data.next_value.masked_fill(data.done.bool(), 0.0)


class v_nstep_td_data(NamedTuple):  # noqa: N801
    """Input of `v_nstep_td_error`.

    Attributes:
        v: `[B]`, V(s_t); the gradient flows through it.
        next_n_v: `[B]`, V(s_{t+n}).
        reward: `[T, B]`, rewards of the n steps.
        done: `[B]`, true where the n steps ended in a terminal state.
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

    The second result is the criterion of each sample, `[B]`, detached.
    """
    v, next_n_v, reward, done, weight, value_gamma = data
    gamma_B = value_gamma if isinstance(value_gamma, Tensor) else None
    check_same_shape(v=v, next_n_v=next_n_v, done=done, weight=weight, value_gamma=gamma_B)
    after = nstep_return_data(reward, next_n_v, done)
    target_B = nstep_return(after, gamma, nstep=nstep, value_gamma=value_gamma).detach()
    values_B = criterion_values(criterion, v, target_B)
    return weighted_mean(values_B, weight), values_B.detach()


def bdq_nstep_td_error(
    data: q_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: Tensor | None = None,
    criterion: Criterion = functional.mse_loss,
) -> tuple[Tensor, Tensor]:
    """Return the n-step loss of branching Q-learning (Tavakoli et al. 2018, arXiv:1711.08946, eq. 4 to 7).

    y_d = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) Q'_d(s_{t+n}, a_{t+n,d})
    loss = mean over samples of w mean_d criterion(Q_d(s_t, a_{t,d}), y_d)

    q and next_n_q are `[B, D, A]`, action and next_n_action `[B, D]`. The second result is the mean over the branches
    of |y_d - Q_d(s_t, a_{t,d})|, `[B]`, detached.
    """
    q_BD, next_q_BD = pick_values(data, "B, D, A")
    q_DB = q_BD.t()
    target_DB = nstep_target(data, next_q_BD.t(), gamma, nstep, cum_reward=cum_reward, value_gamma=value_gamma)
    loss = weighted_mean(criterion_values(criterion, q_DB, target_DB).mean(0), data.weight)
    return loss, (target_DB - q_DB.detach()).abs().mean(0)

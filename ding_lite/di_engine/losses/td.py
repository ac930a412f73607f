"""Losses of the values of states and of discrete actions, and UPGO, with DI-engine's names and arguments.

The docstring of `rl_utils` explains the arguments that the functions have in common, `rl_utils/soft_q.py` soft values.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.rl_utils.common import (
    check_same_shape,
    discounts,
    nstep_sums,
    pick,
    value_inv_transform,
    value_transform,
    weighted_mean,
)
from ding_lite.rl_utils.policy_gradient import generalized_lambda_returns
from ding_lite.rl_utils.soft_q import LOWEST_LOG_POLICY, action_gap, soft_value

Criterion = Callable[..., Tensor]


q_nstep_td_data = namedtuple("q_nstep_td_data", "q next_n_q action next_n_action reward done weight", defaults=[None])


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

    Fields: `q` is Q(s_t, .) and `next_n_q` Q'(s_{t+n}, .), both `[B, A]`; the gradient flows through `q`. `action` and
    `next_n_action` are a_t and a_{t+n}, integers `[B]`. `reward` is `[T, B]`, the rewards of the n steps, or with
    `cum_reward=True` `[B]`, their discounted sums. `done` `[B]` is true where the n steps ended in a terminal state.

    This is double Q-learning (van Hasselt et al. 2016, arXiv:1509.06461) if a_{t+n} is the argmax of the learning
    network and Q' is the target network. The absolute errors are the priorities of Schaul et al. 2016,
    arXiv:1511.05952.
    """
    q_B, next_q_B = pick_values(data)
    target_B = nstep_target(data, next_q_B, gamma, nstep, cum_reward=cum_reward, value_gamma=value_gamma)
    return td_error(q_B, target_B, data.weight, criterion)


def pick_values(data: Any, dims: str = "B, A") -> tuple[Tensor, Tensor]:
    """Return Q of the actions taken, and Q of those chosen at t+n, detached; both values must have the `dims`."""
    q, next_n_q = data.q, data.next_n_q.detach()
    if q.ndim != len(dims.split(",")) or q.shape != next_n_q.shape:
        raise ValueError(f"q and next_n_q must both be [{dims}], got {tuple(q.shape)} and {tuple(next_n_q.shape)}")
    return pick(q, data.action), pick(next_n_q, data.next_n_action)


def nstep_target(
    data: Any, next_value: Tensor, gamma: float, nstep: int, cum_reward: bool, value_gamma: Tensor | None
) -> Tensor:
    """Return sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) V, `[..., B]`, without gradient, for V `[..., B]`."""
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


# The fields of `q_nstep_td_data` for one step, with `reward` `[B]`.
q_1step_td_data = namedtuple("q_1step_td_data", "q next_q act next_act reward done weight", defaults=[None])


def q_1step_td_error(data: q_1step_td_data, gamma: float, criterion: Criterion = functional.mse_loss) -> Tensor:
    """Return the scalar loss of Q(s, a) against r + gamma (1 - done) Q'(s', a'), see `q_nstep_td_error`."""
    return q_nstep_td_error(q_nstep_td_data._make(data), gamma, cum_reward=True, criterion=criterion)[0]


q_v_1step_td_data = namedtuple("q_v_1step_td_data", "q v act reward done weight", defaults=[None])


def q_v_1step_td_error(
    data: q_v_1step_td_data, gamma: float, criterion: Criterion = functional.mse_loss
) -> tuple[Tensor, Tensor]:
    """Return the loss of Q(s, a) against r + gamma (1 - done) V(s'), as discrete soft actor-critic needs it.

    The gradient flows through `q`, Q(s, .), `[B, A]`, or with several agents `[B, M, A]`. `v` is V(s'), shaped as the
    integers `act` and the weights: `[B]`, or `[B, M]`. `reward` and `done` are `[B]`. The second result is the
    criterion of each sample, shaped like `act`, detached.
    """
    check_same_shape(q=data.q[..., 0], v=data.v, act=data.act, weight=data.weight)
    return _one_step_error(pick(data.q, data.act), data.v, data, gamma, criterion)


v_1step_td_data = namedtuple("v_1step_td_data", "v next_v reward done weight", defaults=[None, None])


def v_1step_td_error(
    data: v_1step_td_data, gamma: float, criterion: Criterion = functional.mse_loss
) -> tuple[Tensor, Tensor]:
    """Return the loss of V(s) against r + gamma (1 - done) V(s'), and the criterion of each sample, detached.

    The gradient flows through `v`, V(s), `[B]` or `[B, M]`. `next_v`, V(s'), and the weights have its shape, `reward`
    and `done` too, or `[B]`. Without `done`, no s' is terminal.
    """
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


nstep_return_data = namedtuple("nstep_return_data", "reward next_value done")


def nstep_return(
    data: Tensor | nstep_return_data, gamma: float, nstep: int | None = None, value_gamma: Tensor | float | None = None
) -> Tensor:
    """Return the discounted sums of the rewards of T steps of the same trajectory, sum_k gamma^k r_{t+k}, `[B]`.

    With `nstep_return_data` instead of the rewards `[T, B]`, gamma^T (1 - done) V(s_{t+T}) is added, where V is its
    `next_value` `[B]` and `done` is `[B]`. `nstep` is T, as a check; None: any number of rewards.

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


v_nstep_td_data = namedtuple("v_nstep_td_data", "v next_n_v reward done weight value_gamma", defaults=[None, None])


def v_nstep_td_error(
    data: v_nstep_td_data, gamma: float, nstep: int = 1, criterion: Criterion = functional.mse_loss
) -> tuple[Tensor, Tensor]:
    """Return the loss of V(s_t) against sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) V(s_{t+n}).

    The gradient flows through `v`, V(s_t), `[B]`. `next_n_v`, V(s_{t+n}), and `done` are `[B]`, `reward` is `[T, B]`,
    and `value_gamma` a number or `[B]`. The second result is the criterion of each sample, `[B]`, detached.
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


m_q_1step_td_data = namedtuple("m_q_1step_td_data", "q target_q next_q act reward done weight", defaults=[None])


def m_q_1step_td_error(
    data: m_q_1step_td_data, gamma: float, tau: float, alpha: float, criterion: Criterion = functional.mse_loss
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the loss of Munchausen DQN (Vieillard et al. 2020, arXiv:2007.14430, eq. 2).

    y = r + alpha max(tau log pi(a | s), -1) + gamma (1 - done) V(s')
    loss = mean(w criterion(Q(s, a), y))

    Q is `q` `[B, A]`, through which the gradient flows. The target network's Q' is `target_q` in s and `next_q` in s';
    pi = softmax(Q' / tau), and V is its soft value. `act`, `reward` and `done` are `[B]`, of one step.

    Returns:
        The loss; the TD errors y - Q(s, a) `[B]`; the mean of the action gap, by which the largest Q'(s, .) exceeds the
        second largest; and `[B]`, 1 where the log-policy was clipped, else 0. The last three are detached.
    """
    q, target_q, next_q, act, reward, done, weight = data
    check_same_shape(q=q, target_q=target_q, next_q=next_q)
    check_same_shape(act=act, reward=reward, done=done, weight=weight)
    q_B = pick(q, act)
    with torch.no_grad():
        log_policy_B = tau * pick(functional.log_softmax(target_q / tau, dim=1), act)
        value_B = soft_value(next_q, tau).masked_fill(done.bool(), 0.0)
        target_B = reward + alpha * log_policy_B.clamp(min=LOWEST_LOG_POLICY) + gamma * value_B
        clipped_B = (log_policy_B < LOWEST_LOG_POLICY).to(q.dtype)
    return *td_error(q_B, target_B, weight, criterion), action_gap(target_q), clipped_B


def q_nstep_sql_td_error(
    data: q_nstep_td_data,
    gamma: float,
    alpha: float | Tensor,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: Tensor | None = None,
    criterion: Criterion = functional.mse_loss,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of n-step soft Q-learning (Haarnoja et al. 2017, arXiv:1702.08165, eq. 5 and 7).

    y = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) V(s_{t+n}),  V(s) = alpha log sum_a exp(Q'(s, a) / alpha)
    loss = mean(w criterion(Q(s_t, a_t), y))

    alpha is the temperature of the policy; `next_n_action` is not used. The other results are the TD errors
    y - Q(s_t, a_t) `[B]` and V(s_{t+n}) `[B]`, detached.
    """
    q_B, _ = pick_values(data._replace(next_n_action=data.action))
    value_B = soft_value(data.next_n_q, alpha).detach()
    target_B = nstep_target(data, value_B, gamma, nstep, cum_reward=cum_reward, value_gamma=value_gamma)
    return *td_error(q_B, target_B, data.weight, criterion), value_B


td_lambda_data = namedtuple("td_lambda_data", "value reward weight", defaults=[None])


def td_lambda_error(data: td_lambda_data, gamma: float = 0.9, lambda_: float = 0.8) -> Tensor:
    """Return mean(w (G_t - V(s_t))^2) / 2, a scalar, with the lambda returns G_t of `generalized_lambda_returns`.

    The gradient flows through the first T of the values V, `value` `[T+1, B]`; `reward` is `[T, B]`. A `lambda_` of 0
    uses one reward before the bootstrap, 1 all T.
    """
    value, reward, weight = data
    return_TB = generalized_lambda_returns(value.detach(), reward, gammas=gamma, lambda_=lambda_)
    return 0.5 * weighted_mean((return_TB - value[:-1]).square(), weight)


def upgo_returns(rewards: Tensor, bootstrap_values: Tensor) -> Tensor:
    """Return the returns of upgoing policy updates, `[T, B]`, without gradient (Vinyals et al. 2019, methods).

    G_t = r_t + G_{t+1} if r_{t+1} + V(s_{t+2}) >= V(s_{t+1}), else r_t + V(s_{t+1}),  G_{T-1} = r_{T-1} + V(s_T)

    `rewards` are `[T, B]`, the values V `[T+1, B]`. The return continues as long as the actions were at least as good
    as expected. Source: doi:10.1038/s41586-019-1724-z.
    """
    check_same_shape(rewards=rewards, bootstrap_values=bootstrap_values[1:])
    good_TB = rewards + bootstrap_values[1:] >= bootstrap_values[:-1]
    lambda_TB = torch.cat([good_TB[1:], torch.ones_like(good_TB[:1])])
    return generalized_lambda_returns(bootstrap_values, rewards, gammas=1.0, lambda_=lambda_TB)


def upgo_loss(
    target_output: Tensor,
    rhos: Tensor,
    action: Tensor,
    rewards: Tensor,
    bootstrap_values: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the loss of upgoing policy updates, -mean(rho_t (G_t - V(s_t)) log pi(a_t | s_t)), a scalar.

    G_t are the returns of `upgo_returns`, for `rewards` `[T, B]` and the values V, `bootstrap_values` `[T+1, B]`. rho
    are the importance ratios `rhos` `[T, B]`. The gradient flows only through the logits of pi, `target_output`
    `[T, B, A]`, for actions `[T, B]`. Where an action `[T, B, U]` selects several of U units, the logits are
    `[T, B, U, A]`, and log pi is the sum over the units except those where `mask` `[T, B, U]` is 0.
    """
    with torch.no_grad():
        adv_TB = rhos * (upgo_returns(rewards, bootstrap_values) - bootstrap_values[:-1])
    check_same_shape(target_output=target_output[..., 0], action=action, mask=mask)
    check_same_shape(rhos=rhos, rewards=rewards, action=action if action.ndim == 2 else action[..., 0])
    logp = -functional.cross_entropy(target_output.movedim(-1, 1), action, reduction="none")
    if mask is not None:
        logp = logp * mask
    return -(adv_TB * (logp if action.ndim == 2 else logp.sum(-1))).mean()

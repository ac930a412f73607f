"""Parts of policy gradients: advantages, lambda returns, the clipped errors of PPO, and its divergences.

Shapes: T steps, B samples or trajectories, M agents; more leading dimensions are allowed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, discounted_sum, weighted_mean
from ding_lite.rl_utils.distribution import Action, Logit, log_prob


class gae_data(NamedTuple):  # noqa: N801 (DI-engine's name)
    """Input of `gae`, all `[T, ...]`. If M agents share the rest `[T, B]`, both values are `[T, B, M]`.

    Attributes:
        value: V(s_t).
        next_value: V(s_{t+1}) of the true next state, even where an episode was truncated.
        reward: r_t.
        done: true if s_{t+1} is terminal, so that its value does not count. None: false everywhere.
        traj_flag: true if t is the last step of its trajectory, terminated or truncated. None: the same as `done`.
    """

    value: Tensor
    next_value: Tensor
    reward: Tensor
    done: Tensor | None = None
    traj_flag: Tensor | None = None


@torch.no_grad()
def gae(data: gae_data, gamma: float = 0.99, lambda_: float = 0.97) -> Tensor:
    """Return the advantages of equation 16, in the shape of `value`, without gradient.

    delta_t = r_t + gamma (1 - done_t) V(s_{t+1}) - V(s_t)
    A_t = delta_t + gamma lambda (1 - traj_flag_t) A_{t+1}

    A `lambda_` of 0 gives the one-step TD error, 1 the discounted return minus V.
    """
    value, next_value, reward, done, traj_flag = data
    if value.ndim == 3 and reward.ndim == 2:  # the agents share rewards and ends
        reward = reward.unsqueeze(-1).expand_as(value)
        done, traj_flag = (x if x is None else x.unsqueeze(-1).expand_as(value) for x in (done, traj_flag))
    check_same_shape(value=value, next_value=next_value, reward=reward, done=done, traj_flag=traj_flag)
    if done is not None:
        next_value = next_value.masked_fill(done.bool(), 0.0)
    delta = reward + gamma * next_value - value
    factor = torch.full_like(delta, gamma * lambda_)
    cut = done if traj_flag is None else traj_flag
    if cut is not None:
        factor.masked_fill_(cut.bool(), 0.0)
    return discounted_sum(delta, factor)


def generalized_lambda_returns(
    bootstrap_values: Tensor,
    rewards: Tensor,
    gammas: float | Tensor,
    lambda_: float | Tensor,
    done: Tensor | None = None,
) -> Tensor:
    """Return `multistep_forward_view` of the values V(s_0), which is not used, to V(s_T), `[T+1, B]`."""
    return multistep_forward_view(bootstrap_values[1:], rewards, gammas=gammas, lambda_=lambda_, done=done)


def multistep_forward_view(
    bootstrap_values: Tensor,
    rewards: Tensor,
    gammas: float | Tensor,
    lambda_: float | Tensor,
    done: Tensor | None = None,
) -> Tensor:
    """Return the lambda returns G_t, `[T, B]`, without gradient (Sutton & Barto 2018, eq. 12.18).

    G_t = r_t + gamma_t (1 - done_t) (lambda_t G_{t+1} + (1 - lambda_t) V(s_{t+1})),  G_T = V(s_T)

    No trajectory ends within the T steps, unless `done` says so. Values and rewards may have more dimensions after T.

    Args:
        bootstrap_values: `[T, B]`, V(s_1) to V(s_T).
        rewards: `[T, B]`, r_0 to r_{T-1}.
        gammas: discount, a number or one for each step, `[T, B]`.
        lambda_: weight of the return against the value, a number or one for each step; that of the last step is not
            used.
        done: `[T, B]`, true where s_{t+1} is terminal; None: nowhere.
    """
    check_same_shape(bootstrap_values=bootstrap_values, rewards=rewards, done=done)
    with torch.no_grad():
        gamma_TB = torch.as_tensor(gammas, device=rewards.device, dtype=rewards.dtype).expand_as(rewards)
        lambda_TB = torch.as_tensor(lambda_, device=rewards.device).to(rewards.dtype).expand_as(rewards).clone()
        lambda_TB[-1] = 0.0
        if done is not None:
            gamma_TB = gamma_TB.masked_fill(done.bool(), 0.0)
            bootstrap_values = bootstrap_values.masked_fill(done.bool(), 0.0)
        delta_TB = rewards + gamma_TB * (1.0 - lambda_TB) * bootstrap_values
        return discounted_sum(delta_TB, gamma_TB * lambda_TB)


def clipped_objective(ratio_B: Tensor, adv_B: Tensor, clip_ratio: float, dual_clip: float | None = None) -> Tensor:
    """Return the clipped surrogate objective of each sample `[B]` (Schulman et al. 2017, eq. 7), for ratio r and adv A.

        min(r A, clip(r, 1 - clip_ratio, 1 + clip_ratio) A), and at least dual_clip A where A < 0 (Ye et al. 2020)

    Raises:
        ValueError: `dual_clip` is not above 1.
    """
    if dual_clip is not None and dual_clip <= 1.0:
        raise ValueError(f"dual_clip must be above 1, got {dual_clip}")
    objective_B = ratio_B * adv_B
    with torch.no_grad():  # a clipped objective has no gradient
        clipped_B = ratio_B.clamp(1.0 - clip_ratio, 1.0 + clip_ratio) * adv_B
    objective_B = torch.where(clipped_B < objective_B, clipped_B, objective_B)
    if dual_clip is not None:
        floor_B = dual_clip * adv_B
        objective_B = torch.where((adv_B < 0.0) & (objective_B < floor_B), floor_B, objective_B)
    return objective_B


def squared_value_error(value_B: Tensor, old_B: Tensor, return_B: Tensor, clip_ratio: float | None) -> Tensor:
    """Return the squared error of each value, see `ppo_value_error`; the gradient flows through the new value.

    `old_B` are the values when the batch was prepared; changes above `clip_ratio` do not count, unless it is None.
    """
    square_B = (return_B - value_B).square()
    if clip_ratio is None:
        return square_B
    with torch.no_grad():  # a clipped error has no gradient
        clipped_B = (return_B - value_B.clamp(old_B - clip_ratio, old_B + clip_ratio)).square()
    return torch.where(clipped_B > square_B, clipped_B, square_B)


def first_episodes(final_index_K: Tensor, n_step: int, num_envs: int) -> Tensor:
    """Return a mask of the steps of each environment's first m episodes.

    m is the smallest number of ended episodes of any environment, so environments with short episodes do not count more
    than those with long ones. All environments must start a new episode in the first row of the block.

    `final_index_K` are the places `t * N + n` of the last steps of episodes. The mask is `[T, N]`, bool.
    """
    end_TN = torch.zeros(n_step * num_envs, dtype=torch.int64, device=final_index_K.device)
    end_TN = end_TN.index_fill(0, final_index_K, 1).view(n_step, num_envs)
    ended_before_TN = end_TN.cumsum(0) - end_TN
    return ended_before_TN < end_TN.sum(0).min()


def calculate_kl_div(log_ratio: Tensor, kl_type: str = "k1", weight: Tensor | None = None) -> Tensor:
    """Return an estimate of KL(q || p), a scalar, from samples of q (Schulman, joschu.net/blog/kl-approx.html).

    k1 = mean r, k2 = mean r^2 / 2, k3 = mean (exp(-r) - 1 + r), with r = log q(x) - log p(x)

    k1 and k3 are unbiased, and k3 is never negative. As a loss, with samples x ~ q that do not depend on the
    parameters of q, k2 has the mean gradient of KL(q || p), k3 that of KL(p || q), and k1 has the mean gradient zero.

    The log-ratios r and the weights, which multiply them in every mean, are `[B]`.

    Raises:
        ValueError: there is no such estimate, or the shapes differ.
    """
    check_same_shape(log_ratio=log_ratio, weight=weight)
    if kl_type not in ("k1", "k2", "k3"):
        raise ValueError(f"kl_type must be 'k1', 'k2' or 'k3', got '{kl_type}'")
    if kl_type == "k2":
        log_ratio = 0.5 * log_ratio.square()
    elif kl_type == "k3":
        log_ratio = torch.expm1(-log_ratio) + log_ratio
    return weighted_mean(log_ratio, weight)


def pretrained_kl(
    logit_new: Logit, logit_pretrained: Logit, action: Action, kl_type: str = "k1", weight: Tensor | None = None
) -> Tensor:
    """Return an estimate of KL(pi_new || pi_pretrained) from actions, a scalar, see `calculate_kl_div`.

    The actions are those of pi_old, as if pi_new had chosen them.
    """
    with torch.no_grad():
        logp_pretrained = log_prob(logit_pretrained, action)
    return calculate_kl_div(log_prob(logit_new, action) - logp_pretrained, kl_type, weight)

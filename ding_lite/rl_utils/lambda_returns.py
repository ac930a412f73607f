"""Lambda returns.

Shapes: T steps of a trajectory, B trajectories, `...` any other dimensions. Values and rewards have the same dimensions
after T. `bootstrap_values` of T + 1 steps are V(s_0) to V(s_T). No trajectory ends within the T steps, unless `done`
says so; V(s_T) of a terminal state is 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, discounted_sum


def generalized_lambda_returns(
    bootstrap_values: Tensor,
    rewards: Tensor,
    gammas: float | Tensor,
    lambda_: float | Tensor,
    done: Tensor | None = None,
) -> Tensor:
    """Return the lambda returns of `multistep_forward_view`, `[T, B]`, without gradient, from T + 1 values.

    `bootstrap_values` `[T+1, B]` are V(s_0), which is not used, to V(s_T); the others are as there.
    """
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

"""The loss TD(lambda) of a value, and UPGO; the shapes are those of `rl_utils/lambda_returns.py`."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.common import check_same_shape, weighted_mean
from ding_lite.rl_utils.lambda_returns import generalized_lambda_returns


class td_lambda_data(NamedTuple):  # noqa: N801 (DI-engine's name)
    """Input of `td_lambda_error`.

    Attributes:
        value: `[T+1, B]`, V(s_0) to V(s_T); the gradient flows through the first T.
        reward: `[T, B]`, r_0 to r_{T-1}.
        weight: `[B]` or `[T, B]`, importance weights; None: all are 1.
    """

    value: Tensor
    reward: Tensor
    weight: Tensor | None = None


def td_lambda_error(data: td_lambda_data, gamma: float = 0.9, lambda_: float = 0.8) -> Tensor:
    """Return mean(w (G_t - V(s_t))^2) / 2, a scalar, with the lambda returns G_t of `generalized_lambda_returns`.

    A `lambda_` of 0 uses one reward before the bootstrap, 1 all T.
    """
    value, reward, weight = data
    return_TB = generalized_lambda_returns(value.detach(), reward, gammas=gamma, lambda_=lambda_)
    return 0.5 * weighted_mean((return_TB - value[:-1]).square(), weight)


def upgo_returns(rewards: Tensor, bootstrap_values: Tensor) -> Tensor:
    """Return the returns of upgoing policy updates, `[T, B]`, without gradient (Vinyals et al. 2019, methods).

    G_t = r_t + G_{t+1} if r_{t+1} + V(s_{t+2}) >= V(s_{t+1}), else r_t + V(s_{t+1}),  G_{T-1} = r_{T-1} + V(s_T)

    The return continues as long as the actions were at least as good as expected. Source:
    doi:10.1038/s41586-019-1724-z.

    Args:
        rewards: `[T, B]`.
        bootstrap_values: `[T+1, B]`.
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

    G_t are the returns of `upgo_returns`. Where an action selects several units, log pi is the sum over the units.

    Args:
        target_output: `[T, B, A]`, the logits of the policy pi, or `[T, B, U, A]` for U units; the gradient flows
            through it.
        rhos: `[T, B]`, importance ratios of the actions, a constant.
        action: `[T, B]`, or `[T, B, U]`, int64.
        rewards: `[T, B]`.
        bootstrap_values: `[T+1, B]`, V(s_0) to V(s_T), a constant.
        mask: `[T, B, U]`, 0 for units that are not selected; None: all are.
    """
    with torch.no_grad():
        adv_TB = rhos * (upgo_returns(rewards, bootstrap_values) - bootstrap_values[:-1])
    check_same_shape(target_output=target_output[..., 0], action=action, mask=mask)
    check_same_shape(rhos=rhos, rewards=rewards, action=action if action.ndim == 2 else action[..., 0])
    logp = -functional.cross_entropy(target_output.movedim(-1, 1), action, reduction="none")
    if mask is not None:
        logp = logp * mask
    return -(adv_TB * (logp if action.ndim == 2 else logp.sum(-1))).mean()

"""Losses of critics Q(s, a), and of policies that learn from them, for continuous actions of a data set.

Shapes: B samples, C critics, K actions of a state, D dimensions of an action. Every mean is over the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape


def q_td_error(
    q_CB: Tensor,
    next_value_B: Tensor,
    reward_B: Tensor,
    done_B: Tensor,
    value_gamma_B: Tensor,
    weight_B: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Squared error of each critic against one target, y = r + gamma (1 - done) V'(s').

    Args:
        q_CB: Q_c(s, a); the gradient flows through it alone.
        next_value_B: V'(s'), whatever the algorithm takes for it.
        reward_B: reward, summed over n steps if the return has several.
        done_B: true where s' is terminal.
        value_gamma_B: discount of V'(s'), gamma^n for n steps.
        weight_B: importance weights of prioritised replay, or None for ones.

    Returns:
        The loss, the sum over C of mean(w (y - Q_c)^2), and the errors y - Q_c `[C, B]`, detached and not weighed. The
        mean of their absolute values over C is a sample's priority (Schaul et al. 2016, arXiv:1511.05952).

    Raises:
        ValueError: shapes differ.
    """
    vectors = {"next_value": next_value_B, "reward": reward_B, "done": done_B, "value_gamma": value_gamma_B}
    check_same_shape(q=q_CB[0], weight=weight_B, **vectors)
    target_B = (reward_B + value_gamma_B * next_value_B.masked_fill(done_B.bool(), 0.0)).detach()
    error_CB = target_B - q_CB
    square_CB = error_CB.square() if weight_B is None else error_CB.square() * weight_B
    return square_CB.mean(-1).sum(), error_CB.detach()


def td3_bc_actor_error(
    q_B: Tensor, action_BD: Tensor, data_action_BD: Tensor, q_scale: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """TD3+BC's policy loss (Fujimoto & Gu 2021, arXiv:2106.06860, eq. 5).

    -lambda mean Q(s, pi(s)) + mean (pi(s) - a)^2, lambda = alpha / mean |Q|; the second mean is over D too.

    Args:
        q_B: Q(s, pi(s)) of the first critic.
        action_BD: pi(s).
        data_action_BD: a, of the data.
        q_scale: mean |Q(s, pi(s))|, scalar, of all ranks' samples together; a constant.
        alpha: weight of Q against imitation.

    Returns:
        The loss, and its second term, detached.
    """
    check_same_shape(action=action_BD, data_action=data_action_BD)
    bc_loss = (action_BD - data_action_BD).square().mean()
    return bc_loss - alpha / q_scale.detach() * q_B.mean(), bc_loss.detach()


def expectile_error(error_B: Tensor, tau: float) -> Tensor:
    """Return mean |tau - 1(u < 0)| u^2, whose minimum over V is the tau-expectile of Q.

    Kostrikov et al. 2021, arXiv:2110.06169, eq. 5, of u = Q(s, a) - V(s). tau = 1/2 gives half the squared error;
    as tau approaches 1, V approaches the largest Q of the data's actions.
    """
    return (torch.where(error_B < 0, 1.0 - tau, tau) * error_B.square()).mean()


def advantage_weight(adv_B: Tensor, beta: float, largest: float = 100.0) -> Tensor:
    """Return min(exp(beta A), largest), detached: an action's weight in the imitation (arXiv:2110.06169, eq. 7)."""
    return (beta * adv_B.detach()).exp().clamp(max=largest)


def conservative_gap(q_CKB: Tensor, log_density_KB: Tensor, data_q_CB: Tensor) -> Tensor:
    """Return mean over B of log sum_k exp(Q(s, a_k) - log p(a_k | s)) - Q(s, a), `[C]`.

    Kumar et al. 2020, arXiv:2006.04779, app. F: up to log K, the first term estimates the logarithm of the integral of
    exp Q(s, .) by importance sampling. The gap is large if Q is higher for other actions than for those of the data.

    Args:
        q_CKB: Q_c(s, a_k) of actions drawn from densities that may differ in k.
        log_density_KB: log p(a_k | s); a constant.
        data_q_CB: Q_c(s, a) of the data's action.
    """
    check_same_shape(q=q_CKB[0], log_density=log_density_KB)
    return (torch.logsumexp(q_CKB - log_density_KB.detach(), dim=1) - data_q_CB).mean(-1)


def temperature_error(log_alpha: Tensor, log_prob_B: Tensor, target_entropy: float) -> Tensor:
    """Return -log alpha mean(log pi + target entropy), the loss that keeps the entropy at its target.

    Haarnoja et al. 2018, arXiv:1812.05905, eq. 18, with log alpha for alpha, as in their code. log_prob_B is a
    constant.
    """
    return -(log_alpha * (log_prob_B.detach() + target_entropy)).mean()

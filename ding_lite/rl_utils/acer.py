"""The losses of ACER, actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224).

Shapes: T steps of a sequence, B sequences, A discrete actions. Values keep a last dimension of 1, as in DI-engine.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape

EPS = 1e-8  # keeps c / rho finite


def acer_policy_error(
    q_values: Tensor,
    q_retraces: Tensor,
    v_pred: Tensor,
    target_logit: Tensor,
    actions: Tensor,
    ratio: Tensor,
    c_clip_ratio: float = 10.0,
) -> tuple[Tensor, Tensor]:
    """Return the two terms of the policy's objective, which is to be maximised (eq. 7 of the paper).

    min(c, rho(a_t)) (Qret_t - V_t) log pi(a_t)
    sum_a max(0, 1 - c / rho(a)) pi(a) (Q(s_t, a) - V_t) log pi(a)

    The first is off-policy policy gradient with truncated weights; the second corrects its bias with the critic's own
    values. The gradient flows only through log pi.

    Args:
        q_values: `[T, B, A]`, Q(s_t, .).
        q_retraces: `[T, B, 1]`, Qret_t, see `compute_q_retraces`.
        v_pred: `[T, B, 1]`, V(s_t).
        target_logit: `[T, B, A]`, log pi(. | s_t) of the learning policy, normalised.
        actions: `[T, B]`, integers.
        ratio: `[T, B, A]`, rho = pi(. | s_t) / mu(. | s_t).
        c_clip_ratio: c, the largest weight.

    Returns:
        The first and the second term, both `[T, B, 1]`.

    Raises:
        ValueError: shapes differ.
    """
    check_same_shape(q_values=q_values, target_logit=target_logit, ratio=ratio)
    check_same_shape(q_retraces=q_retraces, v_pred=v_pred, actions=actions.unsqueeze(-1))
    q_values, v_pred, ratio = q_values.detach(), v_pred.detach(), ratio.detach()
    index = actions.unsqueeze(-1)
    weight = ratio.gather(-1, index).clamp(max=c_clip_ratio) * (q_retraces.detach() - v_pred)
    correction = (1.0 - c_clip_ratio / (ratio + EPS)).clamp(min=0.0) * target_logit.detach().exp() * (q_values - v_pred)
    return weight * target_logit.gather(-1, index), (correction * target_logit).sum(-1, keepdim=True)


def acer_value_error(q_values: Tensor, q_retraces: Tensor, actions: Tensor) -> Tensor:
    """Return the critic's errors (Qret_t - Q(s_t, a_t))^2 / 2, `[T, B, 1]`.

    Args:
        q_values: `[T, B, A]`, Q(s_t, .); the gradient flows through it.
        q_retraces: `[T, B, 1]`, the targets Qret_t.
        actions: `[T, B]`, integers.

    Raises:
        ValueError: shapes differ.
    """
    check_same_shape(q_retraces=q_retraces, actions=actions.unsqueeze(-1))
    return 0.5 * (q_retraces.detach() - q_values.gather(-1, actions.unsqueeze(-1))).square()


@torch.no_grad()
def acer_trust_region_update(
    actor_gradients: list[Tensor], target_logit: Tensor, avg_logit: Tensor, trust_region_value: float
) -> list[Tensor]:
    """Return the closest gradients whose step increases the divergence from the average policy by at most a bound.

    The divergence is KL(pi_avg || pi); its gradient with respect to log pi is -pi_avg. With descent gradients g and
    bound delta, eq. 12 of the paper is

    g - max(0, (g . pi_avg - delta) / (pi_avg . pi_avg)) pi_avg

    Args:
        actor_gradients: gradients `[T, B, A]` of each sample's loss, which is minimised, with respect to log pi.
        target_logit: `[T, B, A]`, log pi of the learning policy. The result does not depend on it.
        avg_logit: `[T, B, A]`, log pi_avg of the average policy.
        trust_region_value: delta, the largest increase of the divergence per unit step.

    Returns:
        The changed gradients, of the same shapes.

    Raises:
        ValueError: shapes differ.
    """
    pi_avg = avg_logit.exp()
    square = pi_avg.square().sum(-1, keepdim=True)
    changed = []
    for gradient in actor_gradients:
        check_same_shape(gradient=gradient, target_logit=target_logit, avg_logit=avg_logit)
        excess = (gradient * pi_avg).sum(-1, keepdim=True) - trust_region_value
        changed.append(gradient - (excess / square).clamp(min=0.0) * pi_avg)
    return changed

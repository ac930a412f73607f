"""Losses of proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347).

Shapes: B samples (more leading dimensions are welcome), D dimensions of a continuous action. Logits and actions may be
discrete, continuous or hybrid everywhere, as `distribution.py` says. Every mean is mean(weight * x). The gradient flows
through what is new; everything else is a constant of the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, weighted_mean
from ding_lite.rl_utils.distribution import Action, Logit, log_prob, log_prob_entropy


class ppo_data(NamedTuple):  # noqa: N801 (DI-engine's name, as are those below)
    """Input of `ppo_error`.

    Attributes:
        logit_new: of the policy that learns.
        logit_old: of the policy that acted.
        action: what it did.
        value_new: `[B]`, V(s_t) of the critic that learns.
        value_old: `[B]`, V(s_t) when the batch was collected.
        adv: `[B]` advantages.
        return_: `[B]`, what V(s_t) should be.
        weight: `[B]` importance weights, or None for ones.
    """

    logit_new: Logit
    logit_old: Logit
    action: Action
    value_new: Tensor
    value_old: Tensor
    adv: Tensor
    return_: Tensor
    weight: Tensor | None = None


class ppo_policy_data(NamedTuple):  # noqa: N801
    """Input of `ppo_policy_error`: attributes as in `ppo_data`."""

    logit_new: Logit
    logit_old: Logit
    action: Action
    adv: Tensor
    weight: Tensor | None = None


class ppo_value_data(NamedTuple):  # noqa: N801
    """Input of `ppo_value_error`: attributes as in `ppo_data`."""

    value_new: Tensor
    value_old: Tensor
    return_: Tensor
    weight: Tensor | None = None


class ppo_loss(NamedTuple):  # noqa: N801
    """Scalars; the caller adds the first two and subtracts `entropy_loss`, the mean entropy, each times its weight."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy_loss: Tensor


class ppo_policy_loss(NamedTuple):  # noqa: N801
    """Scalars, as in `ppo_loss`."""

    policy_loss: Tensor
    entropy_loss: Tensor


class ppo_info(NamedTuple):  # noqa: N801
    """Detached scalars.

    Attributes:
        approx_kl: mean of log pi_old(a) - log pi_new(a), which estimates KL(old || new) and may be negative.
        clipfrac: share of the ratios that are beyond 1 +- clip_ratio.
    """

    approx_kl: Tensor
    clipfrac: Tensor


def ppo_error(
    data: ppo_data, clip_ratio: float = 0.2, use_value_clip: bool = True, dual_clip: float | None = None
) -> tuple[ppo_loss, ppo_info]:
    """Losses of policy and value: see `ppo_policy_error` and `ppo_value_error`."""
    logit_new, logit_old, action, value_new, value_old, adv, return_, weight = data
    check_same_shape(adv=adv, value_new=value_new)
    policy_data = ppo_policy_data(logit_new, logit_old, action, adv, weight)
    (policy_loss, entropy_loss), info = ppo_policy_error(policy_data, clip_ratio, dual_clip)
    value_loss = ppo_value_error(ppo_value_data(value_new, value_old, return_, weight), clip_ratio, use_value_clip)
    return ppo_loss(policy_loss, value_loss, entropy_loss), info


def ppo_policy_error(
    data: ppo_policy_data, clip_ratio: float = 0.2, dual_clip: float | None = None
) -> tuple[ppo_policy_loss, ppo_info]:
    """Clipped surrogate loss, equation 7 of the paper.

    ratio = pi_new(a) / pi_old(a)
    objective = min(ratio A, clip(ratio, 1 - clip_ratio, 1 + clip_ratio) A)
    where A < 0, with dual_clip (Ye et al. 2020, arXiv:1912.09729): objective = max(objective, dual_clip A)

    Args:
        data: see `ppo_policy_data`.
        clip_ratio: epsilon in the equation.
        dual_clip: above 1, or None for none.

    Returns:
        `policy_loss`, minus the mean objective, with the mean entropy; and what to log.

    Raises:
        ValueError: dual_clip is not above 1, or shapes differ.
    """
    if dual_clip is not None and dual_clip <= 1.0:
        raise ValueError(f"dual_clip must be above 1, got {dual_clip}")
    logit_new, logit_old, action, adv, weight = data
    logp, entropy = log_prob_entropy(logit_new, action)
    with torch.no_grad():
        logp_old = log_prob(logit_old, action)
    check_same_shape(log_prob=logp, log_prob_old=logp_old, adv=adv, weight=weight)
    log_ratio = logp - logp_old
    ratio = log_ratio.exp()
    objective = ratio * adv
    with torch.no_grad():  # where the clipped objective is the smaller one, it is constant
        clipped = ratio.clamp(1.0 - clip_ratio, 1.0 + clip_ratio) * adv
        approx_kl = -weighted_mean(log_ratio, weight)
        clipfrac = weighted_mean(((ratio - 1.0).abs() > clip_ratio).to(adv.dtype), weight)
    objective = torch.where(clipped < objective, clipped, objective)
    if dual_clip is not None:
        floor = dual_clip * adv
        objective = torch.where((adv < 0.0) & (objective < floor), floor, objective)
    loss = ppo_policy_loss(-weighted_mean(objective, weight), weighted_mean(entropy, weight))
    return loss, ppo_info(approx_kl, clipfrac)


def ppo_value_error(data: ppo_value_data, clip_ratio: float = 0.2, use_value_clip: bool = True) -> Tensor:
    """Half the squared error of the value.

    With use_value_clip it is the larger of the errors of V_new and of V_new clipped to V_old +- clip_ratio, so that a
    value which moved further than clip_ratio in the right direction gets no gradient.

    Raises:
        ValueError: shapes differ.
    """
    value_new, value_old, return_, weight = data
    check_same_shape(value_new=value_new, value_old=value_old, return_=return_, weight=weight)
    error = (return_ - value_new).square()
    if use_value_clip:
        with torch.no_grad():  # where the clipped error is the larger one, it is constant
            clipped = (return_ - value_new.clamp(value_old - clip_ratio, value_old + clip_ratio)).square()
        error = torch.where(clipped > error, clipped, error)
    return 0.5 * weighted_mean(error, weight)

"""Losses of policy gradients in DI-engine's form: REINFORCE, advantage actor-critic, and PPO.

More leading dimensions than `[B]` are allowed. Actions may be discrete, multi-discrete, continuous or hybrid. Every
mean is mean(weight * x).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, weighted_mean
from ding_lite.rl_utils.distribution import Action, Logit, log_prob, log_prob_entropy
from ding_lite.rl_utils.policy_gradient import clipped_objective, squared_value_error
from ding_lite.rl_utils.ppo import pretrained_kl


class pg_data(NamedTuple):  # noqa: N801 (DI-engine's name, like those below)
    """Input of `pg_error`. The gradient flows through `logit`; the other fields are constants.

    Attributes:
        logit: output of the learning policy.
        action: actions taken at t.
        return_: `[B]`, discounted sums of the rewards from t on, or any other factor of log pi.
    """

    logit: Logit
    action: Action
    return_: Tensor
    weight: Tensor | None = None


class pg_loss(NamedTuple):  # noqa: N801
    """Scalar losses: total = policy_loss - entropy_weight entropy_loss.

    Attributes:
        policy_loss: the loss of the policy.
        entropy_loss: the mean entropy of the policy, in nats.
    """

    policy_loss: Tensor
    entropy_loss: Tensor


def pg_error(data: pg_data) -> pg_loss:
    """Return the loss of the policy, -mean(w R log pi(a)), and the mean entropy, mean(w H(pi))."""
    logit, action, return_, weight = data
    logp, entropy = log_prob_entropy(logit, action)
    check_same_shape(log_prob=logp, return_=return_, weight=weight)
    return pg_loss(-weighted_mean(logp * return_, weight), weighted_mean(entropy, weight))


class a2c_data(NamedTuple):  # noqa: N801
    """Input of `a2c_error`. The gradient flows through `logit` and `value`; the other fields are constants.

    Attributes:
        logit: output of the learning policy.
        action: actions taken at t.
        value: `[B]`, V(s_t) of the learning critic.
        adv: `[B]`, advantages.
        return_: `[B]`, targets of V(s_t).
    """

    logit: Logit
    action: Action
    value: Tensor
    adv: Tensor
    return_: Tensor
    weight: Tensor | None = None


class ppo_loss(NamedTuple):  # noqa: N801
    """Scalar losses: total = policy_loss + value_weight value_loss - entropy_weight entropy_loss.

    Attributes:
        policy_loss: the loss of the policy.
        value_loss: the loss of the value.
        entropy_loss: the mean entropy of the policy, in nats.
    """

    policy_loss: Tensor
    value_loss: Tensor
    entropy_loss: Tensor


a2c_loss = ppo_loss


def a2c_error(data: a2c_data) -> a2c_loss:
    """Return the losses of policy and value, and the mean entropy (Mnih et al. 2016, section 4 and algorithm S3).

    policy_loss = -mean(w A log pi(a)), value_loss = mean(w (R - V)^2), entropy_loss = mean(w H(pi))
    """
    logit, action, value, adv, return_, weight = data
    logp, entropy = log_prob_entropy(logit, action)
    check_same_shape(log_prob=logp, value=value, adv=adv, return_=return_, weight=weight)
    return a2c_loss(
        policy_loss=-weighted_mean(logp * adv, weight),
        value_loss=weighted_mean((return_ - value).square(), weight),
        entropy_loss=weighted_mean(entropy, weight),
    )


class ppo_data(NamedTuple):  # noqa: N801
    """Input of `ppo_error`.

    Attributes:
        logit_new: output of the learning policy, pi_new.
        logit_old: output of the policy that acted, pi_old.
        action: actions that it chose.
        value_new: `[B]`, V(s_t) of the learning critic.
        value_old: `[B]`, V(s_t) when the batch was prepared.
        adv: `[B]`, advantages.
        return_: `[B]`, targets of V(s_t).
        logit_pretrained: output of a policy that pi_new should stay close to; None: there is none.
    """

    logit_new: Logit
    logit_old: Logit
    action: Action
    value_new: Tensor
    value_old: Tensor
    adv: Tensor
    return_: Tensor
    weight: Tensor | None = None
    logit_pretrained: Logit | None = None


class ppo_policy_data(NamedTuple):  # noqa: N801
    """Input of `ppo_policy_error`: some fields of `ppo_data`."""

    logit_new: Logit
    logit_old: Logit
    action: Action
    adv: Tensor
    weight: Tensor | None = None
    logit_pretrained: Logit | None = None


class ppo_value_data(NamedTuple):  # noqa: N801
    """Input of `ppo_value_error`: some fields of `ppo_data`."""

    value_new: Tensor
    value_old: Tensor
    return_: Tensor
    weight: Tensor | None = None


ppo_policy_loss = pg_loss


class ppo_loss_with_kl(ppo_loss):  # noqa: N801
    """`ppo_loss` for data with `logit_pretrained`, a tuple of the same three losses.

    Attributes:
        kl_div: what `pretrained_kl` returns.
    """

    kl_div: Tensor


class ppo_policy_loss_with_kl(ppo_policy_loss):  # noqa: N801
    """`ppo_policy_loss` for data with `logit_pretrained`, see `ppo_loss_with_kl`."""

    kl_div: Tensor


class ppo_info(NamedTuple):  # noqa: N801
    """Detached scalars to log.

    Attributes:
        approx_kl: mean of log pi_old(a) - log pi_new(a), an estimate of KL(pi_old || pi_new) that may be negative.
        clipfrac: share of the ratios pi_new(a) / pi_old(a) that are beyond 1 +- clip_ratio.
    """

    approx_kl: Tensor
    clipfrac: Tensor


def ppo_error(
    data: ppo_data,
    clip_ratio: float = 0.2,
    use_value_clip: bool = True,
    dual_clip: float | None = None,
    kl_type: str = "k1",
) -> tuple[ppo_loss, ppo_info]:
    """Return the losses of policy and value, see `ppo_policy_error` and `ppo_value_error`.

    With `logit_pretrained`, the losses are a `ppo_loss_with_kl`.
    """
    logit_new, logit_old, action, value_new, value_old, adv, return_, weight, logit_pretrained = data
    check_same_shape(adv=adv, value_new=value_new)
    policy_data = ppo_policy_data(logit_new, logit_old, action, adv, weight, logit_pretrained)
    policy, info = ppo_policy_error(policy_data, clip_ratio, dual_clip=dual_clip, kl_type=kl_type)
    value_loss = ppo_value_error(ppo_value_data(value_new, value_old, return_, weight), clip_ratio, use_value_clip)
    loss = ppo_loss(policy_loss=policy.policy_loss, value_loss=value_loss, entropy_loss=policy.entropy_loss)
    if not isinstance(policy, ppo_policy_loss_with_kl):
        return loss, info
    penalised = ppo_loss_with_kl._make(loss)
    penalised.kl_div = policy.kl_div
    return penalised, info


def ppo_policy_error(
    data: ppo_policy_data, clip_ratio: float = 0.2, dual_clip: float | None = None, kl_type: str = "k1"
) -> tuple[ppo_policy_loss, ppo_info]:
    """Return the clipped surrogate loss, equation 7 of the paper.

    ratio = pi_new(a) / pi_old(a)
    objective = min(ratio A, clip(ratio, 1 - clip_ratio, 1 + clip_ratio) A)
    With dual_clip (Ye et al. 2020, arXiv:1912.09729, eq. 5), if A < 0: objective = max(objective, dual_clip A)

    `policy_loss` is minus the mean objective. With `logit_pretrained`, the losses are a `ppo_policy_loss_with_kl`, and
    `kl_type` is the estimate of the KL, see `calculate_kl_div`.

    Raises:
        ValueError: dual_clip is not above 1, or kl_type is unknown.
    """
    logit_new, logit_old, action, adv, weight, logit_pretrained = data
    logp, entropy = log_prob_entropy(logit_new, action)
    with torch.no_grad():
        logp_old = log_prob(logit_old, action)
    check_same_shape(log_prob=logp, log_prob_old=logp_old, adv=adv, weight=weight)
    log_ratio = logp - logp_old
    ratio = log_ratio.exp()
    objective = clipped_objective(ratio, adv, clip_ratio=clip_ratio, dual_clip=dual_clip)
    with torch.no_grad():
        approx_kl = -weighted_mean(log_ratio, weight)
        clipfrac = weighted_mean(((ratio - 1.0).abs() > clip_ratio).to(adv.dtype), weight)
    info = ppo_info(approx_kl=approx_kl, clipfrac=clipfrac)
    loss = ppo_policy_loss(policy_loss=-weighted_mean(objective, weight), entropy_loss=weighted_mean(entropy, weight))
    if logit_pretrained is None:
        return loss, info
    penalised = ppo_policy_loss_with_kl._make(loss)
    penalised.kl_div = pretrained_kl(logit_new, logit_pretrained, action, kl_type=kl_type, weight=weight)
    return penalised, info


def ppo_value_error(data: ppo_value_data, clip_ratio: float = 0.2, use_value_clip: bool = True) -> Tensor:
    """Return half the mean squared error of the value, a scalar.

    With use_value_clip, the error of a sample is the larger one of (R - V_new)^2 and (R - clip(V_new, V_old -
    clip_ratio, V_old + clip_ratio))^2. A value that has moved towards R by more than clip_ratio then has no gradient.
    `clip_ratio` has the units of the values.
    """
    value_new, value_old, return_, weight = data
    check_same_shape(value_new=value_new, value_old=value_old, return_=return_, weight=weight)
    square = squared_value_error(value_new, value_old, return_, clip_ratio=clip_ratio if use_value_clip else None)
    return 0.5 * weighted_mean(square, weight)

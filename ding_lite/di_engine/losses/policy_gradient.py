"""Losses of policies in DI-engine's form, and its classes that choose actions.

More leading dimensions than `[B]` are allowed. Actions may be discrete, multi-discrete, continuous or hybrid; the names
by the kind of action are the same functions. Every mean is mean(weight * x).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, weighted_mean
from ding_lite.rl_utils.distribution import Action, Logit, log_prob, log_prob_entropy, mode, sample
from ding_lite.rl_utils.exploration import epsilon_at
from ding_lite.rl_utils.policy_gradient import clipped_objective, pretrained_kl, squared_value_error
from ding_lite.rl_utils.vtrace import vtrace_advantage, vtrace_nstep_return

pg_data = namedtuple("pg_data", "logit action return_ weight", defaults=[None])


class pg_loss(NamedTuple):  # noqa: N801 (DI-engine's name, like those below)
    """Scalar losses: total = policy_loss - entropy_weight entropy_loss, the mean entropy of the policy, in nats."""

    policy_loss: Tensor
    entropy_loss: Tensor


def pg_error(data: pg_data) -> pg_loss:
    """Return the loss of the policy, -mean(w R log pi(a)), and the mean entropy, mean(w H(pi)).

    `return_` is R, `[B]`, a sum of rewards, or any other factor of log pi. The gradient flows through `logit`.
    """
    logit, action, return_, weight = data
    logp, entropy = log_prob_entropy(logit, action)
    check_same_shape(log_prob=logp, return_=return_, weight=weight)
    return pg_loss(-weighted_mean(logp * return_, weight), weighted_mean(entropy, weight))


a2c_data = namedtuple("a2c_data", "logit action value adv return_ weight", defaults=[None])


class ppo_loss(NamedTuple):  # noqa: N801
    """Scalar losses: total = policy_loss + value_weight value_loss - entropy_weight entropy_loss, as in `pg_loss`."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy_loss: Tensor


a2c_loss = vtrace_loss = ppo_loss


def a2c_error(data: a2c_data) -> ppo_loss:
    """Return the losses of policy and value, and the mean entropy (Mnih et al. 2016, section 4 and algorithm S3).

    policy_loss = -mean(w A log pi(a)), value_loss = mean(w (R - V)^2), entropy_loss = mean(w H(pi))

    `value` is V, `adv` A and `return_` R, each `[B]`. The gradient flows through `logit` and `value`.
    """
    logit, action, value, adv, return_, weight = data
    logp, entropy = log_prob_entropy(logit, action)
    check_same_shape(log_prob=logp, value=value, adv=adv, return_=return_, weight=weight)
    return _losses(logp, entropy, value, adv, return_, weight)


def _losses(
    logp: Tensor, entropy: Tensor, value: Tensor, adv: Tensor, return_: Tensor, weight: Tensor | None
) -> ppo_loss:
    return ppo_loss(
        policy_loss=-weighted_mean(logp * adv, weight),
        value_loss=weighted_mean((return_ - value).square(), weight),
        entropy_loss=weighted_mean(entropy, weight),
    )


ppo_data = namedtuple(
    "ppo_data",
    "logit_new logit_old action value_new value_old adv return_ weight logit_pretrained",
    defaults=[None, None],
)
# Some fields of `ppo_data`, and the same for actions whose logits are dict(mu, sigma), each `[B, D]`.
ppo_policy_data = namedtuple(
    "ppo_policy_data", "logit_new logit_old action adv weight logit_pretrained", defaults=[None, None]
)
ppo_value_data = namedtuple("ppo_value_data", "value_new value_old return_ weight", defaults=[None])
ppo_data_continuous = namedtuple(
    "ppo_data_continuous",
    "mu_sigma_new mu_sigma_old action value_new value_old adv return_ weight logit_pretrained",
    defaults=[None, None],
)
ppo_policy_data_continuous = namedtuple(
    "ppo_policy_data_continuous", "mu_sigma_new mu_sigma_old action adv weight logit_pretrained", defaults=[None, None]
)
ppo_policy_loss = pg_loss


class ppo_loss_with_kl(ppo_loss):  # noqa: N801
    """`ppo_loss` for data with `logit_pretrained`, a tuple of the same three losses; `kl_div` is of `pretrained_kl`."""

    kl_div: Tensor


class ppo_policy_loss_with_kl(pg_loss):  # noqa: N801
    """`pg_loss` for data with `logit_pretrained`, see `ppo_loss_with_kl`."""

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

    `logit_new` is the output of the learning policy, pi_new, and `logit_old` that of the policy that acted, pi_old.
    `value_new` are values of the learning critic, `value_old` those when the batch was prepared, `adv` the advantages,
    and `return_` the targets of the values, each `[B]`. With `logit_pretrained`, the output of a policy that pi_new
    should stay close to, the losses are a `ppo_loss_with_kl`.
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
) -> tuple[pg_loss, ppo_info]:
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
    loss = pg_loss(policy_loss=-weighted_mean(objective, weight), entropy_loss=weighted_mean(entropy, weight))
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


vtrace_data = namedtuple(
    "vtrace_data",
    "target_output behaviour_output action value reward weight next_value done traj_flag",
    defaults=[None, None, None, None],
)


def vtrace_error(
    data: vtrace_data,
    gamma: float = 0.99,
    lambda_: float = 0.95,
    rho_clip_ratio: float = 1.0,
    c_clip_ratio: float = 1.0,
    rho_pg_clip_ratio: float = 1.0,
) -> ppo_loss:
    """Return the losses of policy and value, and the mean entropy (section 4.2 of the paper).

    Fields: the logits `target_output` of the learning policy pi and `behaviour_output` of the policy that acted; the
    `action` that this one chose; `value` `[T+1, B]`, V(s_t) of the learning critic; `reward` `[T, B]`; the weights,
    `[T, B]` or `[B]`; and `[T, B]`: `next_value`, V of the true next states, by default value[1:], which is correct if
    no trajectory is truncated; `done`, whether the next state is terminal, by default nowhere; `traj_flag`, whether the
    trajectory ends after the step, terminated or truncated, by default where `done`. The gradient flows through
    `target_output` and `value`.

    policy_loss = -mean(w A log pi(a)), value_loss = mean(w (v - V)^2), entropy_loss = mean(w H(pi))

    The advantages A come from `vtrace_advantage`, the targets v from `vtrace_nstep_return`.

    `rho_clip_ratio` is rho_bar, which determines the policy whose value V converges to, `c_clip_ratio` c_bar, which
    determines the speed of convergence, and `rho_pg_clip_ratio` rho_bar of the policy gradient.
    """
    target_output, behaviour_output, action, value, reward, weight, next_value, done, traj_flag = data
    logp, entropy = log_prob_entropy(target_output, action)
    check_same_shape(log_prob=logp, reward=reward, weight=weight if weight is not None and weight.ndim > 1 else None)
    with torch.no_grad():
        ratio = (logp - log_prob(behaviour_output, action)).exp()
        rho, c, rho_pg = (ratio.clamp(max=limit) for limit in (rho_clip_ratio, c_clip_ratio, rho_pg_clip_ratio))
        cuts = dict(next_value=next_value, done=done, traj_flag=traj_flag)
        return_ = vtrace_nstep_return(rho, c, reward, bootstrap_values=value, gamma=gamma, lambda_=lambda_, **cuts)
        last_value = (value if next_value is None else next_value)[-1:]
        next_return = torch.cat([return_[1:], last_value])
        adv = vtrace_advantage(rho_pg, reward, next_return, bootstrap_values=value[:-1], gamma=gamma, **cuts)
    return _losses(logp, entropy, value[:-1], adv, return_, weight)


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
    values. The gradient flows only through log pi. Both terms are `[T, B, 1]`.

    `q_values` are Q(s_t, .), `[T, B, A]`, `q_retraces` Qret_t of `compute_q_retraces` and `v_pred` V(s_t), both
    `[T, B, 1]`, `target_logit` log pi(. | s_t) of the learning policy, normalised, and `ratio` rho, the quotient of
    pi(. | s_t) and mu(. | s_t), both `[T, B, A]`, and `actions` integers `[T, B]`. `c_clip_ratio` is c.
    """
    check_same_shape(q_values=q_values, target_logit=target_logit, ratio=ratio)
    check_same_shape(q_retraces=q_retraces, v_pred=v_pred, actions=actions.unsqueeze(-1))
    q_values, v_pred, ratio = q_values.detach(), v_pred.detach(), ratio.detach()
    index = actions.unsqueeze(-1)
    weight = ratio.gather(-1, index).clamp(max=c_clip_ratio) * (q_retraces.detach() - v_pred)
    correction = (1.0 - c_clip_ratio / (ratio + EPS)).clamp(min=0.0) * target_logit.detach().exp() * (q_values - v_pred)
    return weight * target_logit.gather(-1, index), (correction * target_logit).sum(-1, keepdim=True)


def acer_value_error(q_values: Tensor, q_retraces: Tensor, actions: Tensor) -> Tensor:
    """Return the critic's errors (Qret_t - Q(s_t, a_t))^2 / 2, `[T, B, 1]`; arguments as for `acer_policy_error`.

    The gradient flows through `q_values`.
    """
    check_same_shape(q_retraces=q_retraces, actions=actions.unsqueeze(-1))
    return 0.5 * (q_retraces.detach() - q_values.gather(-1, actions.unsqueeze(-1))).square()


# Names by the kind of action.
pg_error_continuous, a2c_error_continuous = pg_error, a2c_error
ppo_error_continuous: Callable[..., tuple[ppo_loss, ppo_info]] = ppo_error
ppo_policy_error_continuous: Callable[..., tuple[pg_loss, ppo_info]] = ppo_policy_error
vtrace_error_discrete_action = vtrace_error_continuous_action = vtrace_error


def compute_importance_weights(
    target_output: Logit,
    behaviour_output: Logit,
    action: Action,
    action_space_type: str = "discrete",
    requires_grad: bool = False,
) -> Tensor:
    """Return pi_target(a) / pi_behaviour(a), `[...]`, for two logits and the actions that pi_behaviour chose.

    `action_space_type` is 'discrete', 'continuous' or 'hybrid'. A gradient flows only with `requires_grad`.

    Raises:
        ValueError: action_space_type is unknown or contradicts the structure of the logit.
    """
    kind = "discrete" if isinstance(target_output, Tensor) else "continuous" if "mu" in target_output else "hybrid"
    if action_space_type != kind:
        raise ValueError(f"action_space_type must be '{kind}' for this logit, got '{action_space_type}'")
    with torch.set_grad_enabled(requires_grad and torch.is_grad_enabled()):
        return (log_prob(target_output, action) - log_prob(behaviour_output, action)).exp()


def get_epsilon_greedy_fn(start: float, end: float, decay: float, type_: str = "exp") -> Callable[[int], float]:
    """Return `epsilon_at`, which explains the arguments, as a function of the global env step.

    Raises:
        ValueError: `type_` is unknown, or `decay` is not positive.
    """
    epsilon_at(0, start=start, end=end, decay=decay, type=type_)  # reports a mistake now
    return partial(epsilon_at, start=start, end=end, decay=decay, type=type_)


# Classes whose objects choose an action, given a logit.


class ArgmaxSampler:
    """Returns the most likely action: the argmax if it is discrete, mu if it is continuous."""

    def __call__(self, logit: Logit) -> Any:
        return mode(logit)


MuSampler = HybridDeterminsticSampler = ArgmaxSampler  # the second is spelled as in DI-engine


class MultinomialSampler:
    """Returns a random discrete action, drawn with the probabilities of the policy."""

    def __call__(self, logit: Tensor) -> Any:
        return sample(logit)


class ReparameterizationSampler:
    """Returns a random continuous action, mu + sigma noise; the gradient flows through mu and sigma."""

    def __call__(self, logit: dict[str, Any]) -> Any:
        return torch.addcmul(logit["mu"], logit["sigma"], torch.randn_like(logit["mu"]))


class HybridStochasticSampler:
    """Returns a random hybrid action; the gradient flows through mu and sigma of its continuous part."""

    def __call__(self, logit: dict[str, Any]) -> Any:
        return {
            "action_type": MultinomialSampler()(logit["action_type"]),
            "action_args": ReparameterizationSampler()(logit["action_args"]),
        }

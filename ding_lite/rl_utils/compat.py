"""Names of DI-engine that this package does not use itself, for code that was written for DI-engine.

Elsewhere in this package one function handles discrete, continuous and hybrid actions, see `distribution.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ding_lite.rl_utils.a2c import a2c_data, a2c_error, a2c_loss
from ding_lite.rl_utils.distribution import Action, Logit, log_prob, mode, sample
from ding_lite.rl_utils.pg import pg_data, pg_error, pg_loss
from ding_lite.rl_utils.ppo import (
    ppo_data,
    ppo_error,
    ppo_info,
    ppo_loss,
    ppo_policy_data,
    ppo_policy_error,
    ppo_policy_loss,
)
from ding_lite.rl_utils.vtrace import vtrace_data, vtrace_error, vtrace_loss

# Losses by the kind of action.


def a2c_error_continuous(data: a2c_data) -> a2c_loss:
    """See `a2c_error`."""
    return a2c_error(data)


def pg_error_continuous(data: pg_data) -> pg_loss:
    """See `pg_error`."""
    return pg_error(data)


class ppo_data_continuous(NamedTuple):  # noqa: N801
    """Input of `ppo_error_continuous`: `ppo_data` with dict(mu, sigma), each `[B, D]`, for logits."""

    mu_sigma_new: Logit
    mu_sigma_old: Logit
    action: Action
    value_new: Tensor
    value_old: Tensor
    adv: Tensor
    return_: Tensor
    weight: Tensor | None = None


class ppo_policy_data_continuous(NamedTuple):  # noqa: N801
    """Input of `ppo_policy_error_continuous`: attributes as in `ppo_data_continuous`."""

    mu_sigma_new: Logit
    mu_sigma_old: Logit
    action: Action
    adv: Tensor
    weight: Tensor | None = None


def ppo_error_continuous(
    data: ppo_data_continuous, clip_ratio: float = 0.2, use_value_clip: bool = True, dual_clip: float | None = None
) -> tuple[ppo_loss, ppo_info]:
    """See `ppo_error`."""
    return ppo_error(ppo_data(*data), clip_ratio, use_value_clip, dual_clip)


def ppo_policy_error_continuous(
    data: ppo_policy_data_continuous, clip_ratio: float = 0.2, dual_clip: float | None = None
) -> tuple[ppo_policy_loss, ppo_info]:
    """See `ppo_policy_error`."""
    return ppo_policy_error(ppo_policy_data(*data), clip_ratio, dual_clip)


def vtrace_error_discrete_action(
    data: vtrace_data,
    gamma: float = 0.99,
    lambda_: float = 0.95,
    rho_clip_ratio: float = 1.0,
    c_clip_ratio: float = 1.0,
    rho_pg_clip_ratio: float = 1.0,
) -> vtrace_loss:
    """See `vtrace_error`, whose losses this returns."""
    return vtrace_error(data, gamma, lambda_, rho_clip_ratio, c_clip_ratio, rho_pg_clip_ratio)[0]


vtrace_error_continuous_action = vtrace_error_discrete_action


def compute_importance_weights(
    target_output: Logit,
    behaviour_output: Logit,
    action: Action,
    action_space_type: str = "discrete",
    requires_grad: bool = False,
) -> Tensor:
    """Return pi_target(a) / pi_behaviour(a), `[...]`.

    Args:
        target_output: logit of the policy that is evaluated, see `distribution.py`.
        behaviour_output: logit of the policy that acted.
        action: that the policy chose.
        action_space_type: 'discrete', 'continuous' or 'hybrid'; it must agree with the structure of the logit.
        requires_grad: whether the gradient flows through the weights.

    Raises:
        ValueError: action_space_type is unknown or contradicts the logit.
    """
    kind = "discrete" if isinstance(target_output, Tensor) else "continuous" if "mu" in target_output else "hybrid"
    if action_space_type != kind:
        raise ValueError(f"action_space_type is '{action_space_type}', but the logit is that of a {kind} action")
    with torch.set_grad_enabled(requires_grad and torch.is_grad_enabled()):
        return (log_prob(target_output, action) - log_prob(behaviour_output, action)).exp()


# Ways to choose an action from a logit.


class ArgmaxSampler:
    """The most likely discrete action."""

    def __call__(self, logit: Tensor) -> Any:
        return mode(logit)


class MultinomialSampler:
    """A discrete action drawn at random."""

    def __call__(self, logit: Tensor) -> Any:
        return sample(logit)


class MuSampler:
    """The mean of a continuous action."""

    def __call__(self, logit: dict[str, Any]) -> Any:
        return mode(logit)


class ReparameterizationSampler:
    """A continuous action drawn at random as mu + sigma noise: the gradient flows through mu and sigma."""

    def __call__(self, logit: dict[str, Any]) -> Any:
        return torch.addcmul(logit["mu"], logit["sigma"], torch.randn_like(logit["mu"]))


class HybridStochasticSampler:
    """A hybrid action drawn at random; the gradient flows through the arguments' mu and sigma."""

    def __call__(self, logit: dict[str, Any]) -> Any:
        return {
            "action_type": MultinomialSampler()(logit["action_type"]),
            "action_args": ReparameterizationSampler()(logit["action_args"]),
        }


class HybridDeterminsticSampler:
    """The most likely type of a hybrid action, with the arguments' means; spelt as DI-engine's."""

    def __call__(self, logit: dict[str, Any]) -> Any:
        return mode(logit)

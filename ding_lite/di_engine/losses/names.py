"""Second names of losses, by the kind of action, and DI-engine's classes that choose actions.

Elsewhere one function handles discrete, continuous and hybrid actions, see `rl_utils/distribution.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ding_lite.di_engine.losses.ppo import (
    a2c_error,
    pg_error,
    ppo_error,
    ppo_info,
    ppo_loss,
    ppo_policy_error,
    ppo_policy_loss,
)
from ding_lite.di_engine.losses.vtrace import vtrace_error
from ding_lite.rl_utils.distribution import Action, Logit, log_prob, mode, sample
from ding_lite.rl_utils.exploration import epsilon_at

# Losses with a name for each kind of action.

a2c_error_continuous = a2c_error
pg_error_continuous = pg_error


class ppo_data_continuous(NamedTuple):  # noqa: N801
    """Input of `ppo_error_continuous`: `ppo_data`, whose logits are dict(mu, sigma), each `[B, D]`."""

    mu_sigma_new: Logit
    mu_sigma_old: Logit
    action: Action
    value_new: Tensor
    value_old: Tensor
    adv: Tensor
    return_: Tensor
    weight: Tensor | None = None
    logit_pretrained: Logit | None = None


class ppo_policy_data_continuous(NamedTuple):  # noqa: N801
    """Input of `ppo_policy_error_continuous`: some fields of `ppo_data_continuous`."""

    mu_sigma_new: Logit
    mu_sigma_old: Logit
    action: Action
    adv: Tensor
    weight: Tensor | None = None
    logit_pretrained: Logit | None = None


ppo_error_continuous: Callable[..., tuple[ppo_loss, ppo_info]] = ppo_error
ppo_policy_error_continuous: Callable[..., tuple[ppo_policy_loss, ppo_info]] = ppo_policy_error
vtrace_error_discrete_action = vtrace_error_continuous_action = vtrace_error


def compute_importance_weights(
    target_output: Logit,
    behaviour_output: Logit,
    action: Action,
    action_space_type: str = "discrete",
    requires_grad: bool = False,
) -> Tensor:
    """Return pi_target(a) / pi_behaviour(a), `[...]`.

    Args:
        target_output: logit of the policy pi_target, see `rl_utils/distribution.py`.
        behaviour_output: logit of the policy pi_behaviour, which acted.
        action: the actions that it chose.
        action_space_type: 'discrete', 'continuous' or 'hybrid'; it must agree with the structure of the logit.
        requires_grad: whether gradients flow through the returned weights.

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

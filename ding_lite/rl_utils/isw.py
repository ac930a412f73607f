"""Importance sampling weights."""

from __future__ import annotations

import torch
from torch import Tensor

from ding_lite.rl_utils.distribution import Action, Logit, log_prob


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
        action: what it did.
        action_space_type: 'discrete', 'continuous' or 'hybrid'; it must be what the logit's structure says.
        requires_grad: whether the gradient flows through the weights.

    Raises:
        ValueError: action_space_type is unknown or contradicts the logit.
    """
    kind = "discrete" if isinstance(target_output, Tensor) else "continuous" if "mu" in target_output else "hybrid"
    if action_space_type != kind:
        raise ValueError(f"action_space_type is '{action_space_type}', but the logit is that of a {kind} action")
    with torch.set_grad_enabled(requires_grad and torch.is_grad_enabled()):
        return (log_prob(target_output, action) - log_prob(behaviour_output, action)).exp()

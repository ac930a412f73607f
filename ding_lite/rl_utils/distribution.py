"""Distributions of actions as functions of a policy's output, the `logit`.

The structure of the logit determines the kind of action. `...` stands for any leading dimensions, A is the number of
discrete actions, or of options of the largest branch, and D the number of branches of a multi-discrete action, or of
dimensions of a continuous one:

| kind | logit | action |
|---|---|---|
| discrete | `[..., A]` | int64 `[...]` |
| multi-discrete | dict(branches `[..., D, A]`) | int64 `[..., D]` |
| continuous | dict(mu `[..., D]`, sigma `[..., D]`) | `[..., D]` |
| hybrid | dict(action_type `[..., A]`, action_args=dict(mu, sigma)) | dict(action_type, action_args) |

The dimensions of a continuous action are independent normal variables; the branches of a multi-discrete action, and the
two parts of a hybrid one, are independent of each other. An entry of -inf in a discrete logit forbids that action, or
option of a branch.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape

Logit = Tensor | dict[str, Any]
Action = Tensor | dict[str, Tensor]

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def log_prob_entropy(logit: Logit, action: Action) -> tuple[Tensor, Tensor]:
    """Return `log_prob` and `entropy`, both `[...]`. This is faster than calling the two functions.

    Raises:
        ValueError: the action does not fit the logit in shape or structure.
    """
    if isinstance(logit, Tensor):
        logp_A = logit.log_softmax(-1)
        return _gather(logp_A, action), _categorical_entropy(logp_A)
    if "branches" in logit:
        logp_D, entropy_D = log_prob_entropy(logit["branches"], action)
        return logp_D.sum(-1), entropy_D.sum(-1)
    if "mu" in logit:
        log_sigma = logit["sigma"].log().sum(-1)
        return _normal_log_prob(logit, action, log_sigma), _normal_entropy(logit, log_sigma)
    logp, entropy_ = log_prob_entropy(_part(logit, "action_type"), _part(action, "action_type"))
    logp_args, entropy_args = log_prob_entropy(_part(logit, "action_args"), _part(action, "action_args"))
    return logp + logp_args, entropy_ + entropy_args


def log_prob(logit: Logit, action: Action) -> Tensor:
    """Return log pi(action), `[...]`, the log of a density if the action is continuous.

    Raises:
        ValueError: the action does not fit the logit in shape or structure.
    """
    if isinstance(logit, Tensor):
        return _gather(logit.log_softmax(-1), action)
    if "branches" in logit:
        return log_prob(logit["branches"], action).sum(-1)
    if "mu" in logit:
        return _normal_log_prob(logit, action, logit["sigma"].log().sum(-1))
    logp = log_prob(_part(logit, "action_type"), _part(action, "action_type"))
    return logp + log_prob(_part(logit, "action_args"), _part(action, "action_args"))


def entropy(logit: Logit) -> Tensor:
    """Return the entropy -E log pi, `[...]`, in nats; it is a differential entropy if the action is continuous."""
    if isinstance(logit, Tensor):
        return _categorical_entropy(logit.log_softmax(-1))
    if "branches" in logit:
        return entropy(logit["branches"]).sum(-1)
    if "mu" in logit:
        return _normal_entropy(logit, logit["sigma"].log().sum(-1))
    return entropy(_part(logit, "action_type")) + entropy(_part(logit, "action_args"))


def kl_divergence(logit_p: Logit, logit_q: Logit) -> Tensor:
    """Return KL(p || q) = E_p (log p - log q), `[...]`, in closed form.

    Raises:
        ValueError: the logits differ in shape or structure.
    """
    if isinstance(logit_p, Tensor) and isinstance(logit_q, Tensor):
        check_same_shape(logit_p=logit_p, logit_q=logit_q)
        logp_A, logq_A = finite(logit_p.log_softmax(-1)), finite(logit_q.log_softmax(-1))
        return (logp_A.exp() * (logp_A - logq_A)).sum(-1)
    if not isinstance(logit_p, Tensor) and "branches" in logit_p:
        return kl_divergence(logit_p["branches"], _part(logit_q, "branches")).sum(-1)
    if not isinstance(logit_p, Tensor) and "mu" in logit_p:
        check_same_shape(mu_p=logit_p["mu"], mu_q=_part(logit_q, "mu"))
        ratio_D = logit_p["sigma"] / _part(logit_q, "sigma")
        shift_D = (logit_p["mu"] - _part(logit_q, "mu")) / _part(logit_q, "sigma")
        return 0.5 * (ratio_D.square() + shift_D.square() - 1.0 - 2.0 * ratio_D.log()).sum(-1)
    parts = [kl_divergence(_part(logit_p, name), _part(logit_q, name)) for name in ("action_type", "action_args")]
    return parts[0] + parts[1]


@torch.no_grad()
def sample(logit: Logit, generator: torch.Generator | None = None) -> Action:
    """Return a random action. A discrete one is the argmax of the logits plus Gumbel noise.

    Args:
        logit: the logit of the policy.
        generator: source of the random numbers, on the device of the logit; None: torch's global generator of it.
    """
    if isinstance(logit, Tensor):
        noise_A = torch.empty_like(logit, dtype=torch.promote_types(logit.dtype, torch.float32))
        return (logit - noise_A.exponential_(generator=generator).log_()).argmax(-1)
    if "branches" in logit:
        return sample(logit["branches"], generator)
    if "mu" in logit:
        noise_D = torch.empty_like(logit["mu"]).normal_(generator=generator)
        return torch.addcmul(logit["mu"], logit["sigma"], noise_D)
    return {name: sample(_part(logit, name), generator) for name in ("action_type", "action_args")}  # type: ignore[misc]


def mode(logit: Logit) -> Action:
    """Return the most likely action: the argmax of a discrete logit or of each branch, mu of a continuous one."""
    if isinstance(logit, Tensor):
        return logit.argmax(-1)
    if "branches" in logit:
        return mode(logit["branches"])
    if "mu" in logit:
        return logit["mu"]
    return {name: mode(_part(logit, name)) for name in ("action_type", "action_args")}  # type: ignore[misc]


def finite(logp_A: Tensor) -> Tensor:
    """Return log-probabilities with the lowest finite number instead of -inf, so that 0 times it is 0 and not NaN."""
    return logp_A.clamp_min(torch.finfo(logp_A.dtype).min)


def _part(value: Logit | Action, name: str) -> Any:
    if isinstance(value, Tensor) or name not in value:
        got = "a tensor" if isinstance(value, Tensor) else f"a dict of {', '.join(sorted(value)) or 'nothing'}"
        raise ValueError(
            "a logit must be a tensor, dict(branches), dict(mu, sigma) or dict(action_type, action_args), and an "
            f"action or a second logit must be of the same kind: expected a dict with '{name}', got {got}"
        )
    return value[name]


def _gather(logp_A: Tensor, action: Action) -> Tensor:
    if not isinstance(action, Tensor) or action.shape != logp_A.shape[:-1]:
        got = tuple(action.shape) if isinstance(action, Tensor) else "a dict"
        raise ValueError(f"expected action {tuple(logp_A.shape[:-1])} for logit {tuple(logp_A.shape)}, got {got}")
    return logp_A.gather(-1, action.unsqueeze(-1)).squeeze(-1)


def _categorical_entropy(logp_A: Tensor) -> Tensor:
    return -(logp_A.exp() * finite(logp_A)).sum(-1)


def _normal_log_prob(logit: dict[str, Any], action: Action, log_sigma: Tensor) -> Tensor:
    mu = logit["mu"]
    if not isinstance(action, Tensor) or action.shape != mu.shape:
        got = tuple(action.shape) if isinstance(action, Tensor) else "a dict"
        raise ValueError(f"action must have the shape of mu, {tuple(mu.shape)}, got {got}")
    return -0.5 * ((action - mu) / logit["sigma"]).square().sum(-1) - log_sigma - mu.shape[-1] * HALF_LOG_TWO_PI


def _normal_entropy(logit: dict[str, Any], log_sigma: Tensor) -> Tensor:
    return log_sigma + logit["mu"].shape[-1] * (0.5 + HALF_LOG_TWO_PI)

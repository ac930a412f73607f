"""Masks of actions: networks read `action_mask` from a dict of observations, and forbid the other actions.

Shapes: B samples, A discrete actions or options of the largest branch, D branches of a multi-discrete action. X stands
for any leading dimensions.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from ding_lite.torch_utils.data import Figures
from ding_lite.utils.tree import MASK

Logit = TypeVar("Logit", Tensor, Any)


def find_mask(obs: Any) -> Tensor | None:
    """Return the `action_mask` of observations; None if they have none, and all actions are allowed."""
    return obs.get(MASK) if isinstance(obs, dict) else None


def obey_mask(logit: Logit, obs: Any) -> Logit:
    """Return a logit or action values, with -inf for the actions that the observations forbid.

    The argmax, softmax and log-probabilities of the result then never choose or count a forbidden action, and no
    gradient flows to what the network returned for it. A row that allows nothing is left as it is: the last observation
    of an episode often allows no action, and none is played there.

    Args:
        logit: `[..., A]`, or a dict of `branches` `[..., D, A]`.
        obs: the observations. If they are a dict with `action_mask`, shaped like the logit, actions for which it is 0
            or False are forbidden.
    """
    mask_XA = find_mask(obs)
    if mask_XA is None:
        return logit
    if isinstance(logit, dict):
        return {"branches": obey_mask(logit["branches"], obs)}
    return logit.masked_fill(~allowed_actions(mask_XA), -torch.inf)


def average_allowed(figures: Figures, obs: Any) -> dict[str, Tensor]:
    """Return figures whose `q_value` is its mean if the observations have a mask: forbidden actions have -inf."""
    q_value = figures.get("q_value")
    if q_value is None or find_mask(obs) is None:
        return figures
    return figures | {"q_value": q_value.masked_fill(q_value.isneginf(), torch.nan).nanmean()}


def allowed_actions(mask_XA: Tensor) -> Tensor:
    """Return which actions a mask allows, bool `[..., A]`; all of them in a row that allows nothing."""
    allowed_XA = mask_XA != 0
    return allowed_XA | ~allowed_XA.any(-1, keepdim=True)


def allowed_mean(advantage: Tensor, mask_XA: Tensor | None, dim: int = -1) -> Tensor:
    """Return the mean over the actions at `dim`, which stays, that a mask allows; None: over all."""
    if mask_XA is None:
        return advantage.mean(dim, keepdim=True)
    allowed = allowed_actions(mask_XA)[(..., *[None] * (-1 - dim))]
    return (advantage * allowed).sum(dim, keepdim=True) / allowed.sum(dim, keepdim=True)


def one_hot(index: Tensor, size: int) -> Tensor:
    """Return `[..., size]`, bool, true only at `index` `[...]`.

    Unlike torch's function of this name it does not read the values of `index`, so that losses which use it can be
    traced.
    """
    return index.unsqueeze(-1) == torch.arange(size, device=index.device)

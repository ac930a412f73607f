"""The value of a state under a policy over discrete actions whose entropy is rewarded.

Shapes: `...` any leading dimensions, A discrete actions.
"""

from __future__ import annotations

from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape
from ding_lite.rl_utils.distribution import entropy


def soft_policy_value(q: Tensor, logit: Tensor, alpha: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return the soft value of states, with an exact expectation over the actions.

    V(s) = sum_a pi(a | s) (Q(s, a) - alpha log pi(a | s)) = sum_a pi(a | s) Q(s, a) + alpha H(pi(. | s))

    Source: Christodoulou 2019, arXiv:1910.07207, eq. 10.

    Args:
        q: `[..., A]`, Q(s, .).
        logit: `[..., A]`, the logit of pi; an entry of -inf forbids an action.
        alpha: weight of the entropy.

    Returns:
        V and the entropy H in nats, both `[...]`.

    Raises:
        ValueError: q and logit differ in shape.
    """
    check_same_shape(q=q, logit=logit)
    entropy_B = entropy(logit)
    return (logit.softmax(-1) * q).sum(-1) + alpha * entropy_B, entropy_B

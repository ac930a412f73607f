"""The tanh of a normal variable, a distribution of actions between -1 and 1.

Source: Haarnoja et al. 2018, arXiv:1812.05905, appendix C. Shapes: B samples, D dimensions of an action, `...` any
leading dimensions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.distribution import HALF_LOG_TWO_PI


def squashed_sample(logit: dict[str, Tensor], noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions a = tanh(u), u = mu + sigma noise, and log pi(a). The gradient flows through mu and sigma.

    log pi(a) = log N(u; mu, sigma) - sum over D of log(1 - tanh(u)^2), where
    log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)) is accurate for any u, even where tanh(u) is rounded to 1.

    Args:
        logit: `mu` and `sigma`, `[B, D]`.
        noise: standard normal numbers, `[..., B, D]`.

    Returns:
        The actions `[..., B, D]`, and log pi `[..., B]`.
    """
    u = torch.addcmul(logit["mu"], logit["sigma"], noise)
    log_normal = -0.5 * noise.square() - logit["sigma"].log() - HALF_LOG_TWO_PI
    log_slope = 2.0 * (math.log(2.0) - u - functional.softplus(-2.0 * u))
    return torch.tanh(u), (log_normal - log_slope).sum(-1)

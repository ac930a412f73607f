"""Estimates of the Kullback-Leibler divergence that PPO may penalise; every mean is mean(weight * x)."""

from __future__ import annotations

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, weighted_mean
from ding_lite.rl_utils.distribution import Action, Logit, log_prob


def calculate_kl_div(log_ratio: Tensor, kl_type: str = "k1", weight: Tensor | None = None) -> Tensor:
    """Return an estimate of KL(q || p), a scalar, from samples of q (Schulman, joschu.net/blog/kl-approx.html).

    k1 = mean r, k2 = mean r^2 / 2, k3 = mean (exp(-r) - 1 + r), with r = log q(x) - log p(x)

    k1 and k3 are unbiased, and k3 is never negative. As a loss, with samples x ~ q that do not depend on the
    parameters of q, k2 has the mean gradient of KL(q || p), k3 that of KL(p || q), and k1 has the mean gradient zero.

    Args:
        log_ratio: `[B]`, r.
        kl_type: 'k1', 'k2' or 'k3'.
        weight: `[B]`, importance weights; None: all are 1.

    Raises:
        ValueError: there is no such estimate, or the shapes differ.
    """
    check_same_shape(log_ratio=log_ratio, weight=weight)
    if kl_type == "k1":
        return weighted_mean(log_ratio, weight)
    if kl_type == "k2":
        return weighted_mean(0.5 * log_ratio.square(), weight)
    if kl_type == "k3":
        return weighted_mean(torch.expm1(-log_ratio) + log_ratio, weight)
    raise ValueError(f"kl_type must be 'k1', 'k2' or 'k3', got '{kl_type}'")


def pretrained_kl(
    logit_new: Logit, logit_pretrained: Logit, action: Action, kl_type: str = "k1", weight: Tensor | None = None
) -> Tensor:
    """Return an estimate of KL(pi_new || pi_pretrained) from actions, a scalar, see `calculate_kl_div`.

    The actions are those of pi_old, as if pi_new had chosen them.
    """
    with torch.no_grad():
        logp_pretrained = log_prob(logit_pretrained, action)
    return calculate_kl_div(log_prob(logit_new, action) - logp_pretrained, kl_type, weight)

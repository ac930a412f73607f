from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ding_lite.rl_utils import (
    calculate_kl_div,
    kl_divergence,
    log_prob,
)


def test_what_estimates_of_a_kl_and_their_gradients_are_in_the_mean() -> None:
    """All actions once, weighted by their number times their probability under q, give exact means."""
    gen = torch.Generator().manual_seed(0)
    q, p = torch.randn(2, 5, generator=gen).double()
    q.requires_grad_()
    actions, rows = torch.arange(5), (q.expand(5, 5), p.expand(5, 5))
    weight = 5 * q.detach().softmax(-1)

    def gradient(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, q)[0]

    forward, backward = kl_divergence(q, p), kl_divergence(p, q)
    estimates = {
        kind: calculate_kl_div(log_prob(rows[0], actions) - log_prob(rows[1], actions), kind, weight)
        for kind in ("k1", "k2", "k3")
    }
    torch.testing.assert_close(estimates["k1"], forward)
    torch.testing.assert_close(estimates["k3"], forward)
    for kind, expected in (("k1", torch.zeros(5).double()), ("k2", gradient(forward)), ("k3", gradient(backward))):
        torch.testing.assert_close(torch.autograd.grad(estimates[kind], q, retain_graph=True)[0], expected)


def test_an_unknown_estimate_of_a_kl_is_refused() -> None:
    with pytest.raises(ValueError, match="kl_type must be 'k1', 'k2' or 'k3', got 'k0'"):
        calculate_kl_div(torch.zeros(2), "k0")
    with pytest.raises(ValueError, match="the same shape"):
        calculate_kl_div(torch.zeros(2), "k1", torch.ones(2, 1))

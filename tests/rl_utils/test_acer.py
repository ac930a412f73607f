from __future__ import annotations

import torch
from torch.distributions import Categorical, kl_divergence

from ding_lite.rl_utils import acer_trust_region_update


def test_the_trust_region_bounds_the_growth_of_the_divergence() -> None:
    gen = torch.Generator().manual_seed(0)
    logp, average, gradient = (torch.randn(6, 5, 4, generator=gen, dtype=torch.float64) for _ in range(3))
    logp, average = logp.log_softmax(-1), average.log_softmax(-1)
    bound = 0.05
    (changed,) = acer_trust_region_update([gradient], logp, average, bound)
    leaf = logp.clone().requires_grad_()
    (average.exp() * (average - leaf)).sum().backward()  # KL(average || pi) with respect to log pi
    assert leaf.grad is not None
    growth = -(leaf.grad * changed).sum(-1)  # of a step along the descent direction
    assert growth.max() <= bound + 1e-9
    free = -(leaf.grad * gradient).sum(-1) <= bound
    assert free.any()
    assert not free.all()
    torch.testing.assert_close(changed[free], gradient[free])
    torch.testing.assert_close(growth[~free], torch.full_like(growth[~free], bound))
    divergence = kl_divergence(Categorical(logits=average), Categorical(logits=logp))  # what is bounded
    torch.testing.assert_close((average.exp() * (average - logp)).sum(-1), divergence)

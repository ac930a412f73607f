from __future__ import annotations

import torch

from ding_lite.model import PG

HYBRID = {"action_type_shape": 3, "action_args_shape": 2}


def test_continuous_and_hybrid_policies_return_a_gaussian_with_sigma_one_at_first() -> None:
    obs = torch.randn(5, 4)
    logit = PG(4, 2, "continuous")(obs)["logit"]
    assert logit["mu"].shape == (5, 2)
    assert torch.equal(logit["sigma"], torch.ones(5, 2))
    logit = PG(4, HYBRID, "hybrid")(obs)["logit"]
    assert (logit["action_type"].shape, logit["action_args"]["mu"].shape) == ((5, 3), (5, 2))

from __future__ import annotations

import pytest
import torch

from ding_lite.model import DiscreteQAC


@pytest.mark.parametrize("twin", [False, True])
def test_discrete_modes_return_the_documented_shapes(twin: bool) -> None:
    model, obs = DiscreteQAC(4, 3, twin), torch.randn(5, 4)
    assert model(obs, mode="compute_actor")["logit"].shape == (5, 3)
    assert model(obs, mode="compute_critic")["q_value"].shape == (1 + twin, 5, 3)

from __future__ import annotations

import torch

from ding_lite.model import BDQ


def test_branches_of_unequal_sizes_are_padded_with_minus_infinity() -> None:
    model = BDQ(4, action_shape=[2, 3], encoder_hidden_size_list=[8])
    logit_BDA = model(torch.randn(5, 4))["logit"]
    assert logit_BDA.shape == (5, 2, 3)
    assert torch.isneginf(logit_BDA[:, 0, 2]).all()
    assert torch.isfinite(logit_BDA[:, 0, :2]).all()
    assert torch.isfinite(logit_BDA[:, 1]).all()


def test_the_mean_of_every_branch_is_the_state_value() -> None:
    model = BDQ(4, action_shape=[2, 3], encoder_hidden_size_list=[8])
    obs = torch.randn(5, 4)
    logit_BDA, value_B = model(obs)["logit"], model.V(model.encoder(obs)).squeeze(1)
    for branch, size in enumerate([2, 3]):
        torch.testing.assert_close(logit_BDA[:, branch, :size].mean(-1), value_B)


def test_branches_and_bins_are_di_engines_way_to_give_equal_sizes() -> None:
    model = BDQ(4, 3, 2, 1)  # by position: branches, bins, layers
    assert model.sizes == [2, 2, 2]
    assert model(torch.randn(5, 4))["logit"].shape == (5, 3, 2)
    assert BDQ(4, 3, 2, action_shape=[2, 2, 2]).sizes == [2, 2, 2]
    assert BDQ(4, 1, 11)(torch.randn(5, 4))["logit"].shape == (5, 1, 11)


def test_a_single_choice_has_no_dimension_of_branches() -> None:
    assert BDQ(4, action_shape=3)(torch.randn(5, 4))["logit"].shape == (5, 3)
    assert BDQ(4, 1, 3, action_shape=3)(torch.randn(5, 4))["logit"].shape == (5, 3)

from __future__ import annotations

import math

import pytest
import torch

from ding_lite.rl_utils import epsilon_at, epsilon_greedy, family_discounts, family_weights, spread_epsilon


def test_schedules_by_hand() -> None:
    linear = [epsilon_at(step, 1.0, 0.2, 100, "linear") for step in (0, 50, 100, 1000)]
    assert linear == pytest.approx([1.0, 0.6, 0.2, 0.2])
    exponential = [epsilon_at(step, 0.9, 0.1, 100, "exp") for step in (0, 100)]
    assert exponential == pytest.approx([0.9, 0.1 + 0.8 / math.e])


@pytest.mark.parametrize(("kind", "decay"), [("step", 10), ("linear", 0)])
def test_schedules_that_make_no_sense_are_refused(kind: str, decay: int) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        epsilon_at(0, 1.0, 0.1, decay, kind)


def test_exploration_is_drawn_for_each_environment() -> None:
    logit_NA = torch.zeros(10_000, 4)
    logit_NA[:, 3] = 1.0
    action_N = epsilon_greedy(logit_NA, 0.4)
    counts = torch.bincount(action_N, minlength=4) / 10_000
    # greedy 0.6, and 0.1 for each action at random; standard deviation at most 0.005
    torch.testing.assert_close(counts, torch.tensor([0.1, 0.1, 0.1, 0.7]), atol=0.02, rtol=0)


def test_epsilon_zero_is_greedy_and_draws_nothing() -> None:
    state = torch.get_rng_state()
    assert epsilon_greedy(torch.tensor([[1.0, 2.0], [5.0, 2.0]]), 0.0).tolist() == [1, 0]
    assert torch.equal(torch.get_rng_state(), state)


def test_spread_epsilons_by_hand() -> None:
    torch.testing.assert_close(spread_epsilon(0.5, 2.0, 3), torch.tensor([0.5, 0.25, 0.125]))
    # the first and the last of Ape-X: 0.4 and 0.4^8
    torch.testing.assert_close(spread_epsilon(0.4, 7.0, 2), torch.tensor([0.4, 0.00065536]))
    assert spread_epsilon(0.5, 0.0, 3) == spread_epsilon(0.5, 7.0, 1) == 0.5


@pytest.mark.parametrize("agents", [(), (2,)], ids=["one", "agents"])
def test_each_row_may_have_an_epsilon_of_its_own(agents: tuple[int, ...]) -> None:
    logit = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(3, *agents, 4)
    epsilon_N = torch.tensor([0.0, 0.4, 1.0])
    action = torch.stack([epsilon_greedy(logit, epsilon_N) for _ in range(4000)])
    share = (action != 0).double().mean(0)
    # three of four random actions are not greedy; standard deviation at most 0.008
    expected = (0.75 * epsilon_N.double()).view(3, *[1] * len(agents)).expand_as(share)
    torch.testing.assert_close(share, expected, atol=0.03, rtol=0)


def test_allowed_actions_are_explored_evenly() -> None:
    mask_NA = torch.tensor([True, False, True, True]).expand(12_000, 4)
    counts = torch.bincount(epsilon_greedy(torch.zeros(12_000, 4), 1.0, mask_NA), minlength=4) / 12_000
    # a third each; standard deviation 0.0043
    torch.testing.assert_close(counts, torch.tensor([1 / 3, 0.0, 1 / 3, 1 / 3]), atol=0.02, rtol=0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_an_action_with_the_value_minus_infinity_is_never_chosen(epsilon: float) -> None:
    logit_NA = torch.tensor([[0.0, -torch.inf, 1.0], [-torch.inf, 5.0, -torch.inf]]).repeat(2000, 1)
    action_N = epsilon_greedy(logit_NA, epsilon)
    assert logit_NA.gather(1, action_N[:, None]).isfinite().all()
    # of two allowed actions, the worse one is played half as often as a random one; standard deviation 0.011
    assert (action_N[::2] == 0).double().mean().item() == pytest.approx(epsilon / 2, abs=0.05)


def test_a_masked_action_is_never_chosen() -> None:
    mask_NMA = torch.rand(2000, 2, 4) < 0.5
    mask_NMA[..., 0] |= ~mask_NMA.any(-1)
    logit_NMA = torch.randn(2000, 2, 4).masked_fill(~mask_NMA, 9.0)  # what is forbidden looks best
    action_NM = epsilon_greedy(logit_NMA, 0.5, mask_NMA.to(torch.int8))
    assert mask_NMA.gather(-1, action_NM[..., None]).all()


def test_families_of_policies_by_hand() -> None:
    assert family_weights(1, 0.3).tolist() == pytest.approx([0.3])
    assert family_weights(2, 0.3).tolist() == pytest.approx([0.0, 0.3])
    # N = 4: sigmoid(10 (2 i - 2) / 2) for i = 1, 2 is sigmoid(0) and sigmoid(10)
    assert family_weights(4, 0.3).tolist() == pytest.approx([0.0, 0.15, 0.3 / (1 + math.exp(-10)), 0.3])
    assert family_weights(4, 0.3)[0] == 0.0
    assert family_discounts(1, 0.997, 0.99).tolist() == pytest.approx([0.997])
    # the middle has the geometric mean of 1 - gamma: sqrt(0.003 * 0.01) = 0.0054772
    assert family_discounts(3, 0.997, 0.99).tolist() == pytest.approx([0.997, 0.9945228, 0.99])
    assert family_discounts(2, 1.0, 0.99).tolist() == pytest.approx([1.0, 0.99])

"""Samplers, importance weights and schedules with DI-engine's names: they are those of `rl_utils`."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import (
    ArgmaxSampler,
    HybridDeterminsticSampler,
    HybridStochasticSampler,
    MultinomialSampler,
    MuSampler,
    ReparameterizationSampler,
    compute_importance_weights,
    epsilon_at,
    get_epsilon_greedy_fn,
    mode,
    sample,
)
from tests.rl_utils.test_distribution import hybrid, normal


def test_samplers_are_functions_of_rl_utils() -> None:
    logit = hybrid(3, seed=1)
    part, args = logit["action_type"], logit["action_args"]
    torch.testing.assert_close(ArgmaxSampler()(part), mode(part), rtol=0.0, atol=0.0)
    assert torch.equal(MuSampler()(args), args["mu"])
    torch.testing.assert_close(HybridDeterminsticSampler()(logit), mode(logit))
    samplers: tuple[tuple[Any, Any], ...] = (
        (MultinomialSampler(), part), (ReparameterizationSampler(), args), (HybridStochasticSampler(), logit),
    )  # fmt: skip
    for sampler, value in samplers:
        torch.manual_seed(7)
        drawn = sampler(value)
        torch.manual_seed(7)
        torch.testing.assert_close(drawn, sample(value), rtol=0.0, atol=0.0)
    args["mu"].requires_grad_()
    assert ReparameterizationSampler()(args).requires_grad  # unlike `sample`


def test_importance_weights_by_hand() -> None:
    # target 1/4, 3/4, behaviour 1/2, 1/2: ratios 1/2 and 3/2
    target, behaviour = tensor([[0.0, math.log(3.0)]] * 2), torch.zeros(2, 2)
    target.requires_grad_()
    weight = compute_importance_weights(target, behaviour, tensor([0, 1]))
    torch.testing.assert_close(weight, tensor([0.5, 1.5]))
    assert not weight.requires_grad
    assert compute_importance_weights(target, behaviour, tensor([0, 1]), requires_grad=True).requires_grad
    logit = normal(2, 3, seed=1)
    same = compute_importance_weights(logit, logit, logit["mu"], "continuous")
    torch.testing.assert_close(same, torch.ones(2, dtype=torch.float64))
    with pytest.raises(ValueError, match="continuous"):
        compute_importance_weights(target, behaviour, tensor([0, 1]), "continuous")


def test_a_schedule_is_a_function_of_the_env_step() -> None:
    epsilon = get_epsilon_greedy_fn(0.9, 0.1, 100, "exp")
    assert [epsilon(step) for step in (0, 100)] == pytest.approx([0.9, 0.1 + 0.8 / math.e])
    assert epsilon(7) == epsilon_at(7, 0.9, 0.1, 100, "exp")
    for kind, decay in (("step", 10), ("linear", 0)):
        with pytest.raises(ValueError, match="epsilon"):
            get_epsilon_greedy_fn(1.0, 0.1, decay, kind)

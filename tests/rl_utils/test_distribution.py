from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, distributions, tensor

from ding_lite.rl_utils import (
    entropy,
    kl_divergence,
    log_prob,
    log_prob_entropy,
    mode,
    sample,
)


def normal(*shape: int, seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    draw: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
    return {"mu": torch.randn(*shape, **draw), "sigma": torch.rand(*shape, **draw) + 0.2}


def logits(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def hybrid(*shape: int, seed: int) -> dict[str, Any]:
    return {"action_type": logits(*shape, 4, seed=seed), "action_args": normal(*shape, 2, seed=seed + 1)}


MAKE: dict[str, Callable[[int], Any]] = {
    "discrete": lambda seed: logits(3, 5, 4, seed=seed),
    "continuous": lambda seed: normal(3, 5, 2, seed=seed),
    "hybrid": lambda seed: hybrid(3, 5, seed=seed),
    "multi-discrete": lambda seed: {"branches": logits(3, 5, 2, 4, seed=seed)},
}


def torch_distribution(logit: Any) -> Any:
    if isinstance(logit, torch.Tensor):
        return distributions.Categorical(logits=logit)
    if "branches" in logit:
        return distributions.Independent(distributions.Categorical(logits=logit["branches"]), 1)
    return distributions.Independent(distributions.Normal(logit["mu"], logit["sigma"]), 1)


def reference(function: Callable[..., Tensor], *logits_and_action: Any) -> Any:
    """Sum what torch.distributions says over the parts of a hybrid action."""
    first = logits_and_action[0]
    if isinstance(first, dict) and "action_type" in first:
        parts = ("action_type", "action_args")
        return sum(reference(function, *(value[part] for value in logits_and_action)) for part in parts)
    return function(*logits_and_action)


def torchs(logit: Any, action: Any) -> tuple[Any, Any]:
    """Return the log-probability of an action, and the entropy."""
    logp = reference(lambda logit, action: torch_distribution(logit).log_prob(action), logit, action)
    return logp, reference(lambda logit: torch_distribution(logit).entropy(), logit)


@pytest.mark.parametrize("kind", MAKE)
def test_all_agree_with_torch_distributions(kind: str) -> None:
    logit_p, logit_q = MAKE[kind](1), MAKE[kind](2)
    action = sample(logit_q)
    expected_logp, expected_entropy = torchs(logit_p, action)
    expected_kl = reference(
        lambda p, q: distributions.kl_divergence(torch_distribution(p), torch_distribution(q)), logit_p, logit_q
    )
    assert expected_logp.shape == (3, 5)
    torch.testing.assert_close(log_prob(logit_p, action), expected_logp)
    torch.testing.assert_close(entropy(logit_p), expected_entropy)
    torch.testing.assert_close(kl_divergence(logit_p, logit_q), expected_kl)
    torch.testing.assert_close(log_prob_entropy(logit_p, action), (expected_logp, expected_entropy))


def test_a_forbidden_action_gets_no_probability_and_no_gradient() -> None:
    logit = tensor([[0.0, math.log(3.0), -math.inf]], requires_grad=True)
    logp, entropy_ = log_prob_entropy(logit, tensor([1]))
    kl = kl_divergence(tensor([[0.0, 0.0, -math.inf]]), logit)
    torch.testing.assert_close(entropy_.detach(), tensor([math.log(4.0) - 0.75 * math.log(3.0)]))
    torch.testing.assert_close(kl.detach(), tensor([0.5 * math.log(2.0) + 0.5 * math.log(2.0 / 3.0)]))
    (logp + entropy_ + kl).sum().backward()
    assert logit.grad is not None
    assert torch.isfinite(logit.grad).all()
    assert logit.grad[0, 2] == 0.0
    drawn: Any = sample(logit.detach().expand(1000, 3))
    assert set(drawn.tolist()) == {0, 1}


def test_discrete_samples_have_the_given_frequencies() -> None:
    # p = 0.1, 0.2, 0.7: the standard error of a frequency is at most sqrt(0.25 / 60000) = 0.002
    action: Any = sample(tensor([0.1, 0.2, 0.7]).log().expand(200, 300, 3))
    assert action.shape == (200, 300)
    assert action.dtype == torch.int64
    frequency = torch.bincount(action.flatten(), minlength=3) / action.numel()
    torch.testing.assert_close(frequency, tensor([0.1, 0.2, 0.7]), atol=0.01, rtol=0.0)


def test_continuous_samples_have_the_given_moments() -> None:
    action: Any = sample({"mu": tensor([1.0, -2.0]).expand(50000, 2), "sigma": tensor([0.5, 3.0]).expand(50000, 2)})
    torch.testing.assert_close(action.mean(0), tensor([1.0, -2.0]), atol=0.1, rtol=0.0)
    torch.testing.assert_close(action.std(0), tensor([0.5, 3.0]), atol=0.1, rtol=0.0)


def test_samples_carry_no_gradient() -> None:
    logit = normal(4, 2, seed=1)
    logit["mu"].requires_grad_()
    drawn: Any = sample(logit)
    assert not drawn.requires_grad


def test_the_mode_is_the_argmax_or_the_mean() -> None:
    logit = hybrid(3, seed=1)
    chosen: Any = mode(logit)
    assert chosen["action_type"].tolist() == logit["action_type"].argmax(-1).tolist()
    torch.testing.assert_close(mode(logit["action_type"]), chosen["action_type"], rtol=0.0, atol=0.0)
    assert torch.equal(chosen["action_args"], logit["action_args"]["mu"])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected action \(5,\) for logit \(5, 2\)"):
        log_prob(torch.zeros(5, 2), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"the shape of mu, \(5, 1\)"):  # would broadcast to [5, 5]
        log_prob(normal(5, 1, seed=1), torch.zeros(5, dtype=torch.float64))
    with pytest.raises(ValueError, match="the same shape"):
        kl_divergence(torch.zeros(5, 2), torch.zeros(1, 2))
    with pytest.raises(ValueError, match="'action_type', got a dict of sigma"):
        entropy({"sigma": torch.ones(2)})
    with pytest.raises(ValueError, match="'action_type', got a tensor"):
        log_prob(hybrid(2, seed=1), torch.zeros(2))
    for pair in ((torch.zeros(5, 2), normal(5, 2, seed=1)), (normal(5, 2, seed=1), torch.zeros(5, 2))):
        with pytest.raises(ValueError, match="same kind"):
            kl_divergence(*pair)

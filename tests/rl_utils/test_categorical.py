from __future__ import annotations

import pytest
import torch
from torch import Tensor, tensor

from ding_lite.rl_utils import categorical_projection


def project_naively(dist: Tensor, reward: Tensor, done: Tensor, gamma: Tensor, low: float, high: float) -> Tensor:
    """Return the sum over k of p_k max(0, 1 - |T_k - z_i| / d), number by number."""
    batch, num = dist.shape
    gap = (high - low) / (num - 1)
    result = torch.zeros(batch, num, dtype=torch.float64)
    for b in range(batch):
        for k in range(num):
            value = float(reward[b]) + (0.0 if done[b] else float(gamma[b]) * (low + k * gap))
            value = min(max(value, low), high)
            for i in range(num):
                result[b, i] += float(dist[b, k]) * max(0.0, 1.0 - abs(value - (low + i * gap)) / gap)
    return result


def test_a_projection_by_hand() -> None:
    dist = tensor([[0.2, 0.3, 0.5]]).expand(4, 3)  # at -1, 0 and 1
    reward, done = tensor([0.25, 0.25, 0.0, 5.0]), tensor([False, True, False, False])
    projected = categorical_projection(dist, reward, done, tensor([0.5, 0.5, 1.0, 1.0]), -1.0, 1.0)
    expected = [
        # -0.25, 0.25 and 0.75: a quarter of 0.2 goes down to -1; 0.3 and 0.5 are split 3 : 1 and 1 : 3
        [0.05, 0.15 + 0.225 + 0.125, 0.075 + 0.375],
        [0.0, 0.75, 0.25],  # 0.25, whatever follows
        [0.2, 0.3, 0.5],  # every value is an atom, the last one too
        [0.0, 0.0, 1.0],  # above the largest atom
    ]
    torch.testing.assert_close(projected, tensor(expected))


@pytest.mark.parametrize("span", [(-10.0, 10.0), (0.0, 5000.0), (-0.3, 0.1)])
def test_a_projection_is_that_of_the_definition(span: tuple[float, float]) -> None:
    gen = torch.Generator().manual_seed(0)
    low, high = span
    dist = torch.randn(16, 11, generator=gen, dtype=torch.float64).mul(2).softmax(-1)
    reward = torch.randn(16, generator=gen, dtype=torch.float64) * (high - low) / 3
    done, gamma = torch.rand(16, generator=gen) < 0.3, torch.rand(16, generator=gen, dtype=torch.float64)
    before = dist.clone()
    projected = categorical_projection(dist, reward, done, gamma, low, high)
    torch.testing.assert_close(projected, project_naively(dist, reward, done, gamma, low, high))
    torch.testing.assert_close(projected.sum(-1), torch.ones(16, dtype=torch.float64))
    assert torch.equal(dist, before)


def test_float32_keeps_the_probability_of_one_at_both_ends() -> None:
    dist = torch.full((3, 51), 1 / 51)
    reward = tensor([-1e9, 0.1, 1e9])
    projected = categorical_projection(dist, reward, torch.zeros(3).bool(), torch.full((3,), 0.99), -0.7, 0.1)
    torch.testing.assert_close(projected.sum(-1), torch.ones(3))
    assert projected[0, 0] == pytest.approx(1.0)
    assert projected[2, -1] == pytest.approx(1.0)


def test_shapes_that_would_broadcast_are_refused() -> None:
    vector = torch.zeros(2)
    with pytest.raises(ValueError, match=r"expected a distribution \[B, K\]"):
        categorical_projection(torch.ones(2, 1, 3), vector, vector, vector, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"value_gamma \[B\], got \(2, 3\), \(2,\), \(2,\), \(2, 1\)"):
        categorical_projection(torch.ones(2, 3), vector, vector, torch.zeros(2, 1), 0.0, 1.0)

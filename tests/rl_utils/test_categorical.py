"""The projection onto a support and the losses of C51: numbers by hand, and a naive computation with loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, tensor

from ding_lite.rl_utils import (
    categorical_projection,
    dist_nstep_td_data,
    dist_nstep_td_error,
)
from ding_lite.rl_utils.categorical import project_target

SUPPORT = (0.0, 4.0, 3)  # the atoms 0, 2, 4
LN = math.log


def naive_projection(probability: list[float], atoms: list[float], v_min: float, v_max: float) -> list[float]:
    """Give each atom's probability to its two neighbours, one by one."""
    number = len(atoms)
    gap = (v_max - v_min) / (number - 1)
    result = [0.0] * number
    for mass, atom in zip(probability, atoms, strict=True):
        place = (min(max(atom, v_min), v_max) - v_min) / gap
        below = min(math.floor(place), number - 2)
        result[below] += mass * (below + 1 - place)
        result[below + 1] += mass * (place - below)
    return result


# Two samples of two actions. Sample 0 took action 0, probabilities 1/4, 1/4, 1/2; its next is action 1: 1/2, 1/2, 0.
# With a reward of 1 and gamma 1/2 the atoms 0, 2, 4 become 1, 2, 3. 1 gives a half to 0 and to 2: 1/4, 1/4 + 1/2, 0.
# Sample 1 took action 1, probabilities 1/2, 1/4, 1/4, and ends with a reward of 3: half on 2, half on 4.
DIST = tensor([[[0.25, 0.25, 0.5], [1.0, 0, 0]], [[1.0, 0, 0], [0.5, 0.25, 0.25]]])
NEXT = tensor([[[1.0, 0, 0], [0.5, 0.5, 0]], [[0.0, 0, 1], [0.0, 0, 1]]])
# Both losses are log 4. Without the targets' entropies, 1/4 log 4 + 3/4 log 4/3 and log 2: 3/4 log 3 and log 2.
PRIORITIES = (0.75 * LN(3), LN(2))


def example(**changes: Any) -> dist_nstep_td_data:
    base = dist_nstep_td_data(
        dist=DIST, next_n_dist=NEXT, act=tensor([0, 1]), next_n_act=tensor([1, 0]), reward=tensor([1.0, 3.0]),
        done=tensor([False, True]),
    )  # fmt: skip
    return base._replace(**changes)


def test_loss_by_hand() -> None:
    loss, priorities = dist_nstep_td_error(example(), 0.5, *SUPPORT, cum_reward=True)
    torch.testing.assert_close(priorities, tensor(PRIORITIES))
    assert loss.item() == pytest.approx(LN(4))
    weighed, priorities = dist_nstep_td_error(example(weight=tensor([2.0, 0.5])), 0.5, *SUPPORT, cum_reward=True)
    torch.testing.assert_close(priorities, tensor(PRIORITIES))  # of each sample as it is
    assert weighed.item() == pytest.approx(LN(4) * 2.5 / 2)


def test_a_priority_is_zero_for_a_perfect_prediction_of_any_entropy() -> None:
    even, certain = [1 / 3, 1 / 3, 1 / 3], [0.0, 1.0, 0.0]
    dist = tensor([even, certain])[:, None].expand(-1, 2, -1)
    data = example(dist=dist, next_n_dist=dist, reward=torch.zeros(2), done=torch.zeros(2).bool())
    assert dist_nstep_td_error(data, 1.0, *SUPPORT, cum_reward=True)[1].tolist() == pytest.approx([0.0, 0.0], abs=1e-6)


def naive_loss(data: Any, gamma: float, nstep: int) -> tuple[list[float], list[float]]:
    """Return the losses and the priorities of all samples."""
    losses, priorities = [], []
    v_min, v_max, n_atom = -2.0, 3.0, data.dist.shape[-1]
    support = [v_min + i * (v_max - v_min) / (n_atom - 1) for i in range(n_atom)]
    for b in range(len(data.act)):
        total = sum(gamma**k * data.reward[k, b].item() for k in range(nstep))
        keep = 0.0 if data.done[b] else gamma**nstep
        probability = data.next_n_dist[b, data.next_n_act[b]].tolist()
        target = naive_projection(probability, [total + keep * z for z in support], v_min, v_max)
        prediction = data.dist[b, data.act[b]].tolist()
        losses.append(-sum(m * LN(p) for m, p in zip(target, prediction, strict=True)))
        priorities.append(sum(m * LN(m / p) for m, p in zip(target, prediction, strict=True) if m))
    return losses, priorities


def test_loss_equals_a_naive_one() -> None:
    torch.manual_seed(1)
    batch, actions, steps, n_atom = 30, 4, 3, 9
    data = dist_nstep_td_data(
        dist=torch.randn(batch, actions, n_atom, dtype=torch.float64).softmax(-1),
        next_n_dist=torch.randn(batch, actions, n_atom, dtype=torch.float64).softmax(-1),
        act=torch.randint(actions, (batch,)),
        next_n_act=torch.randint(actions, (batch,)),
        reward=torch.randn(steps, batch, dtype=torch.float64),
        done=torch.rand(batch) < 0.3,
        weight=torch.rand(batch, dtype=torch.float64),
    )
    loss, priorities = dist_nstep_td_error(data, 0.9, -2.0, 3.0, n_atom, nstep=steps)
    expected, expected_priorities = torch.tensor(naive_loss(data, 0.9, steps), dtype=torch.float64)
    torch.testing.assert_close(priorities, expected_priorities)
    assert data.weight is not None
    torch.testing.assert_close(loss, (expected * data.weight).mean())


def test_the_share_of_targets_outside_of_the_support() -> None:
    # Rewards of 3.5 and 1/2 of the atoms 0, 2, 4: 3.5, 4.5, 5.5, of which the latter two are outside: 1/2 in sample 0.
    # Sample 1 ends with -1 or with 4, the support's end.
    def share(first: float, second: float) -> Tensor:
        next_B, gamma_B = torch.stack([NEXT[0, 1], NEXT[1, 0]]), tensor([0.5, 0.5])
        return project_target(next_B, tensor([first, second]), tensor([False, True]), gamma_B, 0.0, 4.0)[1]

    assert share(3.5, -1.0).tolist() == [0.5, 1.0]
    assert share(0.0, 4.0).tolist() == [0.0, 0.0]


# -- the target of a critic -----------------------------------------------------------------------------------------


def test_a_projected_target_by_hand() -> None:
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
def test_a_projected_target_is_that_of_the_definition(span: tuple[float, float]) -> None:
    gen = torch.Generator().manual_seed(0)
    low, high = span
    dist = torch.randn(16, 11, generator=gen, dtype=torch.float64).mul(2).softmax(-1)
    reward = torch.randn(16, generator=gen, dtype=torch.float64) * (high - low) / 3
    done, gamma = torch.rand(16, generator=gen) < 0.3, torch.rand(16, generator=gen, dtype=torch.float64)
    projected = categorical_projection(dist, reward, done, gamma, low, high)
    atoms = reward[:, None] + (gamma * ~done)[:, None] * torch.linspace(low, high, 11, dtype=torch.float64)
    naive = [naive_projection(p.tolist(), y.tolist(), low, high) for p, y in zip(dist, atoms, strict=True)]
    torch.testing.assert_close(projected, tensor(naive, dtype=torch.float64))
    torch.testing.assert_close(projected.sum(-1), torch.ones(16, dtype=torch.float64))


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


def test_an_infinite_return_is_not_hidden_by_the_support() -> None:
    projected = categorical_projection(
        torch.full((2, 3), 1 / 3), tensor([torch.inf, 0.5]), torch.zeros(2).bool(), torch.ones(2), 0.0, 1.0
    )
    assert projected.isnan().any(1).tolist() == [True, False]

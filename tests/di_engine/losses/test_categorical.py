"""The projection onto a support and the losses of C51: numbers by hand, and a naive computation with loops."""

from __future__ import annotations

import math
from typing import Any

import torch

from ding_lite.rl_utils import dist_nstep_td_data, dist_nstep_td_error

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

"""Losses of distributions, against naive computations with loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, tensor

from ding_lite.rl_utils import (
    dist_nstep_td_data,
    dist_nstep_td_error,
    fqf_nstep_td_data,
    fqf_nstep_td_error,
    iqn_nstep_td_data,
    iqn_nstep_td_error,
    qrdqn_nstep_td_data,
    qrdqn_nstep_td_error,
)

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


def naive_c51(data: Any, gamma: float, nstep: int) -> tuple[list[float], list[float]]:
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


def test_loss_of_c51_equals_a_naive_one() -> None:
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
    expected, expected_priorities = torch.tensor(naive_c51(data, 0.9, steps), dtype=torch.float64)
    torch.testing.assert_close(priorities, expected_priorities)
    assert data.weight is not None
    torch.testing.assert_close(loss, (expected * data.weight).mean())


def naive(q: Tensor, next_q: Tensor, tau: Tensor, data: Any, gamma: float, kappa: float) -> list[float]:
    """Return the loss of each sample, one pair of quantiles after the other, for q `[B, K, A]` and tau `[B, K]`."""
    losses = []
    for b in range(len(q)):
        total = sum(gamma**k * data.reward[k, b].item() for k in range(len(data.reward)))
        keep = 0.0 if data.done[b] else gamma ** len(data.reward)
        loss = 0.0
        for theta, probability in zip(q[b, :, data.action[b]].tolist(), tau[b].tolist(), strict=True):
            for next_theta in next_q[b, :, data.next_n_action[b]].tolist():
                u = total + keep * next_theta - theta
                huber = u * u / 2 / kappa if abs(u) <= kappa else abs(u) - kappa / 2
                loss += abs(probability - (u < 0)) * huber / next_q.shape[1]
        losses.append(loss)
    return losses


def random_step(
    batch: int = 20, quantiles: int = 5, targets: int = 7
) -> tuple[Tensor, Tensor, Tensor, iqn_nstep_td_data]:
    """Return q `[B, K, A]`, next_q `[B, J, A]`, tau `[B, K]`, and the same as IQN's data."""
    torch.manual_seed(0)
    q, next_q = (torch.randn(batch, n, 3, dtype=torch.float64) * 2 for n in (quantiles, targets))
    tau, reward = torch.rand(batch, quantiles, dtype=torch.float64), torch.randn(3, batch, dtype=torch.float64)
    step = (torch.randint(3, (batch,)), torch.randint(3, (batch,)), reward, torch.rand(batch) < 0.3)
    weight = torch.rand(batch, dtype=torch.float64)
    data = iqn_nstep_td_data(q.transpose(0, 1), next_q.transpose(0, 1), *step, tau.t()[..., None], weight)
    return q, next_q, tau, data


@pytest.mark.parametrize("kappa", [1.0, 0.3, 0.0])
def test_losses_of_quantiles_equal_a_naive_one(kappa: float) -> None:
    q, next_q, tau, data = random_step()
    expected = tensor(naive(q, next_q, tau, data, 0.9, kappa), dtype=torch.float64)
    of_fqf = fqf_nstep_td_data(q, next_q, *data[2:6], tau, data.weight)
    # QR-DQN's loss has as many targets as quantiles, and is not divided by kappa
    of_qrdqn = qrdqn_nstep_td_data(q.mT, next_q[:, :5].mT, *data[2:6], tau[..., None], data.weight)
    of_square = tensor(naive(q, next_q[:, :5], tau, data, 0.9, kappa), dtype=torch.float64) * (kappa or 1.0)
    flat = data._replace(replay_quantiles=data.replay_quantiles.reshape(-1, 1))  # as in DI-engine
    for (loss, losses), each in (
        (iqn_nstep_td_error(data, 0.9, 3, kappa), expected),
        (iqn_nstep_td_error(flat, 0.9, 3, kappa), expected),
        (fqf_nstep_td_error(of_fqf, 0.9, 3, kappa), expected),
        (qrdqn_nstep_td_error(of_qrdqn, 0.9, 3, kappa=kappa), of_square),
    ):
        torch.testing.assert_close(losses, each)
        assert data.weight is not None
        torch.testing.assert_close(loss, (each * data.weight).mean())
        assert not losses.requires_grad

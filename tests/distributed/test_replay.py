"""Ranks that draw from their own prioritised buffers take the step of one process that draws from the joined buffer.

A draw takes one sample from each of B equal parts of the sum of priorities. In a batch of tens of thousands, every
sample therefore has its probability nearly exactly, and steps can be compared although the draws are random.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.utils import get_rank, get_world_size
from ding_lite.worker import PrioritizedReplayBuffer
from tests.distributed import parity
from tests.distributed.on_ranks import call_on_ranks

BATCH = 60_000
CASES = [(1.0, 1.0), (1.0, 4.0), (0.4, 1.0), (0.4, 4.0)]  # beta, and the ratio of rank 1's priorities to rank 0's


def set_priorities(buffer: PrioritizedReplayBuffer, columns: range, scale: float) -> None:
    """Set priorities from 1 to 2, equal for environments 0 to 2 and 3 to 5, times `scale` for those of rank 1, 4 and 5.

    Rank 0 alone has one sample that is hardly ever drawn, and one with which new samples enter.
    """
    place_P = torch.arange(buffer.count())
    step_P, env_P = place_P // len(columns), place_P % len(columns) + columns.start
    priority_P = (1 + (7 * step_P + 5 * (env_P % 3)) % 11 / 10) * torch.where(env_P < 4, 1.0, scale)
    priority_P[(step_P == 2) & (env_P == 1)] = 1e-6
    priority_P[(step_P == 3) & (env_P == 0)] = 10.0
    buffer.update(place_P, priority_P)


def learn(problem: dict[str, Any], beta: float, scale: float) -> dict[str, Tensor]:
    """Take one step on a batch of this rank's buffer; return its mean weight, and how far the parameters moved."""
    cfg, columns = problem["cfg"], parity.UNEVEN[get_world_size()][get_rank()]
    policy = parity.create_policy(cfg)
    before = policy._optimizer.flat.parameter.detach().clone()
    options = dict(nstep=cfg.policy.nstep, gamma=cfg.policy.discount_factor, alpha=1.0, beta=beta)
    buffer = PrioritizedReplayBuffer(600, len(columns), anneal_step=10**9, seed=get_rank(), **options)
    buffer.push(parity.take_columns(problem["old"], columns))
    set_priorities(buffer, columns, scale)
    buffer.push(parity.take_columns(problem["new"], columns))
    batch = policy._to_device(buffer.sample(BATCH * len(columns) // parity.NUM_ENVS))
    policy.weigh(len(columns) * get_world_size() / parity.NUM_ENVS)
    policy.learn(batch)
    return {"weight": batch["weight"].mean(), "step": policy._optimizer.flat.parameter.detach() - before}


def learn_all(problem: dict[str, Any]) -> list[dict[str, Tensor]]:
    return [learn(problem, *case) for case in CASES]


@pytest.fixture(scope="module")
def results() -> list[list[dict[str, Tensor]]]:
    """Return the results of all cases by one process, by rank 0 and by rank 1 of two."""
    sgd = ["policy.learn.optimizer=sgd", "policy.priority=True", "policy.priority_IS_weight=True"]
    cfg = parity.compile_problem("dqn", "discrete", sgd)
    problem = {"cfg": cfg, "old": parity.collect_block(cfg), "new": parity.collect_block(cfg)}
    return [learn_all(problem), *call_on_ranks(learn_all, problem)]


@pytest.mark.parametrize("case", range(len(CASES)), ids=str)
def test_two_ranks_step_as_one_process_with_the_joined_buffer(
    results: list[list[dict[str, Tensor]]], case: int
) -> None:
    one, *ranks = (result[case] for result in results)
    weight, other = (rank["weight"] for rank in ranks)
    if CASES[case][1] == 1:
        assert weight / (weight + other) == pytest.approx(0.5, abs=0.01)
    for rank in ranks:
        assert (rank["step"] - one["step"]).norm() < 0.02 * one["step"].norm()

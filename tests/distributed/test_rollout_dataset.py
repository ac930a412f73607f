"""Data sets of experience under two ranks, in a plain torch loop; Lightning's is in tests/dizoo."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from ding_lite.utils import get_rank
from tests.dataset.test_rollout_dataset import hashes, make
from tests.distributed.on_ranks import call_on_ranks
from tests.policy.helpers import parameter_hash

STEPS = 8


def train_plainly(num_workers: int) -> dict[str, Any]:
    """Train by nothing but torch; return what this rank played and what it ended with."""
    dataset = make("a2c")
    model, batches = dataset.policy.model, []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in itertools.islice(DataLoader(dataset, batch_size=None, num_workers=num_workers), STEPS):
        batches.append(batch)
        optimizer.zero_grad()
        dataset.policy.loss(batch)[0].backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        dataset.publish()
    return {
        "model": parameter_hash(dataset.policy.model),
        "played": hashes(batches),
        "versions": [int(batch["version"].max()) for batch in batches],
        "own": dataset.figures()["env_step"],
        "envstep": dataset.envstep,
    }


def run_plainly() -> dict[str, Any]:
    told: dict[str, Any] = {f"plain{num_workers}": train_plainly(num_workers) for num_workers in (0, 1)}
    # a rank that plays more than another waits for nobody
    return told | {"uneven": hashes(list(itertools.islice(make("ppo"), 3 * get_rank() + 1)))}


def check(ranks: list[dict[str, Any]], name: str, num_workers: int) -> None:
    first, second = (rank[name] for rank in ranks)
    assert first["model"] == second["model"]
    assert len(set(first["played"] + second["played"])) == 2 * STEPS
    assert 0 < first["versions"][-1] <= STEPS
    for told in (first, second):
        assert told["envstep"] in range(2 * int(told["own"]), 2 * int(told["own"]) + (320 if num_workers else 1))


def test_a_plain_torch_loop_on_two_ranks() -> None:
    ranks = call_on_ranks(run_plainly)
    check(ranks, "plain0", 0)
    check(ranks, "plain1", 1)
    # nothing is prefetched: every batch is of parameters as of its collect, which makes two batches
    assert ranks[0]["plain0"]["versions"] == [t - t % 2 for t in range(STEPS)]
    assert [len(rank["uneven"]) for rank in ranks] == [1, 4]

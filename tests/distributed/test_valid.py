"""Two real processes, some of whose steps are not valid: they step as one process does with the valid steps of both.

Each rank runs this file as `python -m tests.distributed.test_valid <folder>`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.utils import DDPContext, get_rank
from tests.distributed import parity
from tests.distributed.launcher import launch
from tests.distributed.test_parity import TOLERANCE, largest_difference

KINDS = {"ppo": ["policy.learn.epoch_per_collect=3"], "a2c": ["policy.learn.adv_norm=True"]}


def failed_block(cfg: Any) -> dict[str, Any]:
    """Return what was collected; two environments failed on the second rank, and one on the first."""
    block = parity.collect_block(cfg)
    valid_TN = torch.ones_like(block["done"])
    for row, n in ((4, 1), (7, 3), (10, 5)):
        valid_TN[row - int(block["episode_step"][row, n]) : row + 1, n] = False
        block["traj_flag"][row, n] = True
    return block | {"valid": valid_TN}


def learn_nothing_and_then_something(problem: dict[str, Any]) -> tuple[int, int]:
    """Return the iterations of two collects; in the first one, the second rank has no valid step."""
    cfg, rank = problem["cfg"], get_rank()
    part = parity.take_columns(problem["block"], parity.UNEVEN[2][rank])
    policy, counts = parity.create_policy(cfg), []
    for valid in (torch.full_like(part["valid"], rank == 0), part["valid"]):
        batches = policy.learn_mode.get_batches(part | {"valid": valid})
        counts.append(len([policy.learn_mode.forward(batch) for batch in batches]))
    return counts[0], counts[1]


def run_rank(folder: str) -> None:
    torch.set_num_threads(1)
    with DDPContext(timeout=30):
        problems = torch.load(Path(folder, "problems.pt"), weights_only=False)
        found = {
            name: (parity.run_problem(problem), learn_nothing_and_then_something(problem))
            for name, problem in problems.items()
        }
        torch.save(found, Path(folder, f"rank{get_rank()}.pt"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what one process with all samples found, then what each of two did."""
    folder = tmp_path_factory.mktemp("valid")
    torch.set_num_threads(1)
    problems = {}
    for name, overrides in KINDS.items():
        cfg = parity.compile_problem(name, "hybrid", overrides)
        problems[name] = {"cfg": cfg, "block": failed_block(cfg)}
    torch.save(problems, folder / "problems.pt")
    done = launch(["-m", "tests.distributed.test_valid", str(folder)])
    assert done.returncode == 0, done.stderr
    alone = {name: (parity.run_problem(problem), None) for name, problem in problems.items()}
    return [alone, *(torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(2))]


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_step_as_one_does_with_the_valid_steps_of_both(found: list[dict[str, Any]], kind: str) -> None:
    alone, *ranks = (each[kind][0] for each in found)
    for rank, state in enumerate(ranks):
        assert not isinstance(state, str), state
        difference, path = largest_difference(alone, state)
        assert difference <= TOLERANCE, f"{path} of rank {rank} is off by {difference}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_without_a_valid_step_stops_nobody(found: list[dict[str, Any]], kind: str) -> None:
    epochs = 3 if kind == "ppo" else 1
    assert [each[kind][1] for each in found[1:]] == [(0, epochs)] * 2


if __name__ == "__main__":
    run_rank(sys.argv[1])

"""Every registered policy takes the same steps on a GPU as on the CPU, in float64; skipped where there is no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.utils.tree import tree_map
from tests.distributed import parity
from tests.distributed.launcher import run_ranks
from tests.distributed.test_parity import PROBLEMS, largest_difference

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

# Sums are taken in another order on a GPU, and Adam divides by small numbers.
TOLERANCE = 1e-6


def compile_problem(case: str, cuda: bool) -> dict[str, Any]:
    name, kind, overrides = PROBLEMS[case]
    block = parity.collect_block(parity.compile_problem(name, kind, overrides))
    return {"cfg": parity.compile_problem(name, kind, [*overrides, f"policy.cuda={cuda}"]), "block": block}


def on_cpu(state: Any) -> Any:
    return tree_map(lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, state)


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_gpu_takes_the_steps_of_the_cpu(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    share_noise = parity.share_noise
    drawn: list[dict[str, Any]] = []

    def share_and_keep(policy: Any, batch: dict[str, Any], columns: range, steps: int) -> None:
        if policy.device.type == "cuda":
            kept = iter(drawn)
            policy._draw_noise = lambda batch: tree_map(lambda noise: noise.to(policy.device), next(kept))
            return
        share_noise(policy, batch, columns, steps)
        draw = policy._draw_noise

        def draw_and_keep(batch: dict[str, Any]) -> dict[str, Any]:
            drawn.append(draw(batch))
            return drawn[-1]

        policy._draw_noise = draw_and_keep

    monkeypatch.setattr(parity, "share_noise", share_and_keep)
    monkeypatch.setattr(parity, "STEPS", 6)  # the first two are not replayed
    cpu, gpu = (parity.run_problem(compile_problem(case, cuda)) for cuda in (False, True))
    assert isinstance(cpu, list), cpu
    assert isinstance(gpu, list), gpu
    difference, path = largest_difference(on_cpu(cpu[0]), on_cpu(gpu[0]))
    assert difference <= TOLERANCE, f"{path} is off by {difference}"


def test_two_ranks_on_one_gpu_step_as_one_does(tmp_path: Path) -> None:
    problems = {case: compile_problem(case, True) for case in PROBLEMS}
    alone = {case: parity.run_problem(problem) for case, problem in problems.items()}
    torch.save(problems, tmp_path / "problems.pt")
    words = ["-m", "tests.distributed.call", "tests.distributed.parity", "run_all", str(tmp_path)]
    run_ranks(words, nproc=2, timeout=400)
    wrong = []
    for rank in range(2):
        states = torch.load(tmp_path / f"world2_rank{rank}.pt", weights_only=False, map_location="cpu")
        for case, state in states.items():
            if isinstance(state, str):
                wrong.append(f"{case} rank {rank}: {state}")
            elif (found := largest_difference(on_cpu(alone[case][0]), state))[0] > TOLERANCE:
                wrong.append(f"{case} rank {rank}: {found[1]} is off by {found[0]}")
    assert wrong == []

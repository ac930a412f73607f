"""Two real ranks, of which rank 1 alone has what is not finite, or parameters of its own."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.policy import DQNPolicy
from ding_lite.torch_utils import NonFiniteError, RankDriftError, RunningMeanStd
from ding_lite.utils import DDPContext, get_rank
from ding_lite.utils.ranks import machine_group as groups
from ding_lite.worker import Learner
from tests.distributed.launcher import launch
from tests.distributed.on_ranks import call_on_ranks
from tests.policy.helpers import make_batch, make_cfg, parameter_hash

# how gradients are averaged: in shared memory, in one collective, by torch's DDP where they are sent, by it always
WAYS = {"shared": [], "flat": [], "overlap": ["bp_update_sync=False"], "ddp": ["data_parallel=ddp"]}


class Rooted(DQNPolicy):
    """Adds a root whose gradient is not finite where the first reward is 7, a constant that is not where it is 8."""

    def _loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        loss, figures = super()._loss(batch)
        if batch["reward"][0] == 7:
            loss = loss + (next(self._model.parameters()) * 0).sqrt().sum()
        if batch["reward"][0] == 8:
            loss = loss + math.inf
        return loss, figures


def create(*overrides: str) -> DQNPolicy:
    torch.manual_seed(0)
    return Rooted(make_cfg("multi_gpu=True", *overrides))


def make_batches(number: int, value: float = 1.0, at: int = -1, index: int = 3) -> list[dict[str, Tensor]]:
    """Return different batches on each rank; rank 1's `at`-th has this reward."""
    batches = [make_batch(8, 2 * seed + get_rank()) for seed in range(number)]
    if get_rank() == 1 and at >= 0:
        batches[at]["reward"][index] = value
    return batches


def run(policy: DQNPolicy, batches: list[dict[str, Tensor]], check_freq: int = 0) -> dict[str, Any]:
    """Train, and return what came of it."""
    learner = Learner(policy, 1000, lambda values: None, check_freq)
    found: dict[str, Any] = {"error": "", "concerned": None}
    try:
        learner.train(batches)
    except (NonFiniteError, RankDriftError) as error:
        found = {"error": str(error), "concerned": getattr(error, "concerned", None), "kind": type(error).__name__}
    return found | {"iteration": learner.train_iter, "hash": parameter_hash(policy.model)}


def run_all() -> dict[str, Any]:
    found: dict[str, Any] = {}
    create_memory = groups.create_memory
    for way, overrides in WAYS.items():
        groups.create_memory = create_memory if way == "shared" else lambda length: None
        skip = [*overrides, "learn.on_nonfinite=skip"]
        found[f"stop-{way}"] = run(create(*overrides), make_batches(5, math.nan, at=2))
        found[f"gradient-{way}"] = run(create(*overrides), make_batches(5, 7.0, at=2, index=0))
        found[f"loss-{way}"] = run(create(*overrides), make_batches(5, 8.0, at=2, index=0))
        found[f"before-{way}"] = run(create(*overrides), make_batches(2))
        found[f"skip-{way}"] = run(create(*skip), make_batches(5, -math.inf, at=4))
        found[f"without-{way}"] = run(create(*skip), make_batches(4))
    policy = create()
    found["drift-none"] = run(policy, make_batches(4), check_freq=2)
    with torch.no_grad():
        parameter = list(policy.model.parameters())[-1].view(-1)[-1:]
        if get_rank() == 1:
            parameter.copy_(torch.nextafter(parameter, torch.tensor([math.inf])))
    found["drift-never"] = run(policy, make_batches(2), check_freq=0)
    found["drift"] = run(policy, make_batches(4), check_freq=3)
    stat = RunningMeanStd()
    stat.update(torch.tensor([1.0, math.nan if get_rank() == 1 else 3.0]))
    stat.update(torch.tensor([2.0 + get_rank()]))
    return found | {"moments": [stat.mean.item(), stat.count.item()]}


def rank_stop() -> None:
    with DDPContext():
        Learner(create(), 1000, lambda values: None).train(make_batches(1000, math.nan, at=2))


@pytest.fixture(scope="module")
def found() -> list[dict[str, Any]]:
    return call_on_ranks(run_all)


def both(found: list[dict[str, Any]], name: str, key: str) -> Any:
    """Return what both ranks alike have found."""
    assert found[0][name][key] == found[1][name][key]
    return found[0][name][key]


STOPS = {  # the beginning of the message, and which ranks are concerned; None: not looked at
    "stop": ("on rank 1 the loss is nan (priority has 1 nan of 8); batch of rank 1: reward has 1 nan of 8; first grad",
             [False, True]),
    "gradient": ("the loss is finite on every rank, its gradient is not; first gradients", [True, True]),
    "loss": ("on rank 1 the loss is inf. ", None),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", STOPS)
def test_both_ranks_stop_at_the_same_iteration_with_the_same_cause(
    found: list[dict[str, Any]], way: str, kind: str
) -> None:
    message, concerned = STOPS[kind]
    assert both(found, f"{kind}-{way}", "error").startswith(f"Iteration 3: {message}")
    assert both(found, f"{kind}-{way}", "iteration") == 2
    assert both(found, f"{kind}-{way}", "hash") == both(found, f"before-{way}", "hash")
    assert concerned in (None, [each[f"{kind}-{way}"]["concerned"] for each in found])


@pytest.mark.parametrize("way", WAYS)
def test_both_ranks_skip_the_same_update(found: list[dict[str, Any]], way: str) -> None:
    assert both(found, f"skip-{way}", "error") == ""
    assert both(found, f"skip-{way}", "iteration") == 5
    assert both(found, f"skip-{way}", "hash") == both(found, f"without-{way}", "hash")


def test_a_last_bit_that_differs_is_drift(found: list[dict[str, Any]]) -> None:
    assert both(found, "drift-none", "error") == ""
    assert both(found, "drift-none", "iteration") == 4
    assert [each["drift-never"]["error"] for each in found] == ["", ""]
    assert both(found, "drift", "kind") == "RankDriftError"
    assert both(found, "drift", "iteration") == 3
    message = both(found, "drift", "error")
    assert message.startswith("Iteration 3: the buffers or parameters of rank 1 differ from those of rank 0, ")


def test_statistics_of_both_ranks_ignore_values_that_one_has(found: list[dict[str, Any]]) -> None:
    assert [each["moments"] for each in found] == [[2.5, 2.0], [2.5, 2.0]]


def test_the_job_ends_with_one_line() -> None:
    done = launch(["-m", "tests.distributed.call", __name__, "rank_stop"], timeout=40)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("[rank ")]
    assert len(lines) <= 2, lines  # one, unless rank 0 is slow to tell rank 1 that it says the same
    assert lines[0][9:].startswith("Iteration 3: on rank 1 the loss is nan (priority has 1 nan of 8); "), lines

"""Statistics of 2 and 3 real processes.

Every rank can make the data of all of them, so that each compares with the joined data on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from ding_lite.torch_utils import RunningMeanStd, minibatches, normalize_parts, rank_sizes
from ding_lite.utils.ranks.collectives import all_gather_object, get_rank, get_world_size
from ding_lite.utils.ranks.machine_group import machine_group
from tests.distributed.on_ranks import call_on_ranks, run_checks

SIZES = (7, 12, 4)


def values_of(rank: int, step: int = 0) -> Tensor:
    """What a rank has in a step: as many values as `SIZES` says, around a mean that differs between ranks."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(SIZES[rank], generator=generator) * (rank + 1) + 10 * rank + step


def joined(step: int = 0) -> Tensor:
    return torch.cat([values_of(rank, step) for rank in range(get_world_size())])


# Checks: each runs on all ranks inside one group, and may fail on any.


def check_moments_of_each_feature_are_those_of_the_joined_data() -> None:
    stat = RunningMeanStd((2,))
    for step in range(3):
        values = values_of(get_rank(), step)
        stat.update(torch.stack([values, values.square()], dim=-1))
    x = torch.cat([joined(step) for step in range(3)]).double()
    features = torch.stack([x, x.float().square().double()], dim=-1)
    assert (stat.count == len(x)).all()
    torch.testing.assert_close(stat.mean, features.mean(0), rtol=1e-9, atol=0)
    torch.testing.assert_close(stat.var, features.var(0, correction=0), rtol=1e-9, atol=0)


def check_all_ranks_hold_the_same_bits() -> None:
    stat = RunningMeanStd()
    stat.update(values_of(get_rank()))
    states = all_gather_object([stat.mean.item(), stat.var.item(), stat.count.item()])
    assert all(state == states[0] for state in states)


def check_a_rank_with_no_values_changes_nothing() -> None:
    stat = RunningMeanStd()
    stat.update(values_of(1) if get_rank() == 1 else torch.empty(0))
    torch.testing.assert_close(stat.mean, values_of(1).double().mean())
    assert stat.count.item() == SIZES[1]


def check_an_update_is_one_collective() -> None:
    assert count_collectives(lambda: RunningMeanStd().update(values_of(get_rank()))) == 1


def check_sizes_are_in_the_order_of_ranks_and_cost_one_collective() -> None:
    assert rank_sizes(SIZES[get_rank()]) == list(SIZES[: get_world_size()])
    assert count_collectives(lambda: rank_sizes(3)) == 1


def check_weighted_means_of_the_ranks_average_to_the_joined_mean() -> None:
    x = values_of(get_rank())
    sizes = rank_sizes(len(x))
    for own_weight in (None, torch.linspace(0.1, 2.0, len(x))):
        samples = {"x": x} if own_weight is None else {"x": x, "weight": own_weight, "own": own_weight}
        assert count_collectives(partial(minibatches, samples, 4, sizes)) == 0
        parts = minibatches(samples, 4, sizes)
        # 2 ranks: 9.5 / 4 = 2.4; 3 ranks: 7.7 / 4 = 1.9
        assert len(parts) == 2
        for part in parts:
            every = all_gather_object({key: value.tolist() for key, value in part.items()})
            means = [(torch.tensor(one["weight"]) * torch.tensor(one["x"])).mean() for one in every]
            values = [x * w for one in every for x, w in zip(one["x"], one.get("own", [1.0] * 99), strict=False)]
            torch.testing.assert_close(torch.stack(means).mean(), torch.tensor(values).mean())


def check_equal_sizes_need_no_weight() -> None:
    (part,) = minibatches({"x": torch.arange(5)}, 5, rank_sizes(5))
    assert set(part) == {"x"}


def check_the_smallest_rank_limits_the_number_of_minibatches() -> None:
    size = 2 if get_rank() == 0 else 40
    parts = minibatches({"x": torch.arange(size)}, 4, rank_sizes(size))
    assert [len(part["x"]) for part in parts] == ([1, 1] if get_rank() == 0 else [20, 20])


def check_ranks_shuffle_on_their_own() -> None:
    torch.manual_seed(get_rank())
    (part,) = minibatches({"x": torch.arange(50)}, 50, rank_sizes(50))
    orders = all_gather_object(part["x"].tolist())
    assert orders[0] != orders[1]


def check_parts_are_normalised_over_all_ranks_in_one_collective() -> None:
    cuts = [list(values_of(rank).tensor_split(3)) for rank in range(get_world_size())]
    for index, mine in enumerate(normalize_parts(cuts[get_rank()])):
        whole = torch.cat([parts[index] for parts in cuts])
        torch.testing.assert_close(mine, (cuts[get_rank()][index] - whole.mean()) / (whole.std() + 1e-8))
    assert count_collectives(lambda: normalize_parts(cuts[get_rank()])) == 1


def count_collectives(work: Callable[[], object]) -> int:
    """Return how often the ranks met in shared memory during `work`."""
    before = machine_group().met
    work()
    return machine_group().met - before


CHECKS = [name.removeprefix("check_") for name in list(globals()) if name.startswith("check_")]


# Tests.


@pytest.fixture(scope="module", params=[2, 3])
def failures(request: pytest.FixtureRequest) -> list[dict[str, str]]:
    return call_on_ranks(run_checks, __name__, nproc=request.param)


@pytest.mark.parametrize("name", CHECKS)
def test_ranks(failures: list[dict[str, str]], name: str) -> None:
    assert [one.get(name) for one in failures] == [None] * len(failures)

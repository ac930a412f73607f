"""Two real gloo processes."""

from __future__ import annotations

import re
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from ding_lite.utils.ranks.collectives import allreduce_data, broadcast_module, get_rank, on_every_rank
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.ranks.machine_group import machine_group
from ding_lite.utils.registry import ConfigError
from tests.distributed.launcher import free_port, launch, run_forked, run_ranks, say
from tests.distributed.on_ranks import call_on_ranks, run_checks

ME = ["-m", "tests.distributed.call", __name__]
WAYS: tuple[dict[str, Any], ...] = ({}, {"share_memory": True})


def make_network() -> nn.Sequential:
    """A small image network, the same on every rank, in channels_last."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 64), nn.ReLU(), nn.Linear(64, 3))
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's hints lack it


def make_loss(network: nn.Module, seed: int, batch: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return network(torch.rand(batch, 4, 8, 8, generator=generator)).square().mean()


# Checks: each runs on both ranks inside one group, and may fail on either.


def check_every_way_of_averaging_gives_the_same_bits() -> None:
    grads = []
    for way in WAYS:
        network = make_network()
        flat = FlatParameters(network, **way)
        make_loss(network, get_rank()).backward()
        flat.average_grad()
        grads.append(flat.gradient.clone())
    assert torch.equal(grads[0], grads[1])  # with two ranks each element is one sum


def check_shared_gradients_are_in_one_memory_that_no_name_is_left_of() -> None:
    flat = FlatParameters(make_network(), share_memory=True)
    dist.barrier()
    assert flat.is_shared
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if "/dev/shm/" in line]
    assert mapped
    assert all("/dev/shm/#" in line and line.endswith("(deleted)") for line in mapped)  # it never had a name
    memory = machine_group().allocate(16)
    assert bytes(memory) == bytes(16)
    dist.barrier()
    memory[8 * get_rank()] = get_rank() + 1
    dist.barrier()
    assert (memory[0], memory[8]) == (1, 2)  # each rank sees the other's
    dist.barrier()


def check_one_rank_that_cannot_map_shared_memory_is_enough_to_do_without() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if get_rank() == 1:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))  # no more files can be opened
    try:
        memory = machine_group().allocate(16)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert memory is None


def check_counts_are_sums_of_whole_numbers() -> None:
    rank = get_rank()
    pairs = {"step": 2**40 + rank, "seconds": 0.25 * (rank + 1), "flag": True}
    if rank == 1:
        pairs = dict(reversed(pairs.items()))  # the order of a rank's dict must not matter
    total = allreduce_data(pairs)
    assert total == {"step": 2**41 + 1, "seconds": 0.75, "flag": 2}
    assert list(total) == list(pairs)
    assert [type(total[key]) for key in ("step", "seconds", "flag")] == [int, float, int]
    assert allreduce_data(rank + 1, op="mean") == 1.5
    assert allreduce_data(rank + 1) == 3


def check_tensors_keep_their_shape_and_type() -> None:
    rank, before = get_rank(), torch.arange(6.0).view(2, 3)
    data: dict[str, Any] = {"f": before.clone(), "i": torch.tensor([rank, 5]), "b": torch.tensor(rank == 0), "n": 1}
    total = allreduce_data(data)
    assert torch.equal(total["f"], 2 * before)
    assert torch.equal(data["f"], before)
    assert torch.equal(total["i"], torch.tensor([1, 10]))
    assert total["b"].item() == 1
    assert (total["f"].dtype, total["i"].dtype, total["b"].shape, total["n"]) == (torch.float32, torch.int64, (), 2)
    assert torch.equal(
        allreduce_data(torch.tensor([rank, 4]), op="mean"), torch.tensor([0.5, 4.0], dtype=torch.float64)
    )
    assert allreduce_data({}) == {}


def check_module_broadcast_covers_buffers_of_every_type() -> None:
    rank = get_rank()
    torch.manual_seed(rank)
    module = nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's hints lack it
    module.register_buffer("mask", torch.tensor([True, rank == 0, False]))
    module.register_buffer("level", torch.full((3,), float(rank), dtype=torch.bfloat16))
    module.register_buffer("count", torch.tensor(10 + rank))
    module.requires_grad_(rank == 0)  # frozen or not is no matter
    broadcast_module(module)
    torch.manual_seed(0)
    expected = nn.Conv2d(2, 3, 2)
    assert torch.equal(module[0].weight, expected.weight)
    assert module[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert module.mask.tolist() == [True, True, False]
    assert (module.level.tolist(), module.count.item()) == ([0.0] * 3, 10)


CHECKS = [name.removeprefix("check_") for name in list(globals()) if name.startswith("check_")]


def rank_crash() -> None:
    """Rank 1 fails with a collective of its own pending, which makes leaving the group wait; rank 0 waits for it."""
    with DDPContext():
        dist.all_reduce(torch.ones(1))
        if get_rank() == 1:
            pending = [dist.all_reduce(torch.ones(1 << 20), async_op=True) for _ in range(4)]
            say(f"failing with {len(pending)} pending at {time.time()}")
            raise ConfigError("boom")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as one that guards its interruption would
        time.sleep(2)
        for _ in range(5):
            dist.all_reduce(torch.ones(1 << 20))


def rank_leaves_after_error() -> None:
    """An exception must leave no group behind, even if the process were to go on; its status says so all the same."""
    try:
        with DDPContext():
            raise ValueError("boom")
    except SystemExit as end:
        say(f"status {end.code}, group {dist.is_initialized()}")


def rank_late(seconds: str) -> None:
    with DDPContext():
        if get_rank() == 1:
            time.sleep(float(seconds))
        allreduce_data(1)


# Tests.


@pytest.fixture(scope="module")
def failures() -> list[dict[str, str]]:
    return call_on_ranks(run_checks, __name__)


@pytest.mark.parametrize("name", CHECKS)
def test_two_ranks(name: str, failures: list[dict[str, str]]) -> None:
    assert [failure.get(name) for failure in failures] == [None, None]


def test_a_config_error_on_a_rank_is_one_line() -> None:
    done = launch([*ME, "rank_crash"], timeout=50)
    assert [line for line in done.stderr.splitlines() if line.startswith("[rank 1]")] == ["[rank 1] boom"]
    assert "exitcode: 2" in done.stderr
    assert time.time() - float(done.stdout.split()[-1]) < 15


def rank_mistake() -> None:
    def check() -> None:
        if get_rank() == 1:
            raise ConfigError("boom")

    with DDPContext():
        on_every_rank(check)


def test_a_mistake_of_one_rank_that_all_raise_names_it_once() -> None:
    done = run_ranks([*ME, "rank_mistake"], timeout=50, status=None)
    assert [line for line in done.stderr.splitlines() if "boom" in line] == ["[rank 1] boom"]


def test_an_exception_leaves_no_group_behind() -> None:
    done = run_ranks([*ME, "rank_leaves_after_error"], timeout=50, status=None)
    assert "status 1, group False" in done.stdout.splitlines()
    assert done.returncode == 1


def test_the_time_out_from_the_environment_limits_a_collective() -> None:
    began = time.time()
    done = run_ranks([*ME, "rank_late", "40"], timeout=50, env={"DING_LITE_TIMEOUT": "3"}, status=None)
    assert done.returncode != 0
    assert time.time() - began < 30
    assert re.match(r"\[rank 0\] ends because it waited 3 s for rank 1 \(.*\), last progress \d+ s ago", done.stderr)


def by_hand(rank: int, port: int, **more: str) -> dict[str, str]:
    variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return {**variables, "DING_LITE_TIMEOUT": "20", **more}


def run_by_hand(env: dict[str, str], timeout: float = 40) -> subprocess.CompletedProcess[str]:
    return run_forked([*ME, "rank_late", "0"], timeout, env, status=None)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_by_hand(by_hand(0, port))
    assert done.returncode == 1
    assert last_line(done).startswith(f"[rank 0] port {port} is in use. Choose another MASTER_PORT")


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_ranks_that_never_come_are_one_clear_line(rank: int) -> None:
    began, port = time.time(), free_port()
    done = run_by_hand(by_hand(rank, port, DING_LITE_TIMEOUT="2"))
    assert done.returncode == 1
    assert time.time() - began < 25
    assert last_line(done).startswith(f"[rank {rank}] the 2 ranks did not meet at 127.0.0.1:{port} within 2 s.")

"""Ranks that meet in shared memory."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from ding_lite.utils.ranks import machine_group as groups
from ding_lite.utils.ranks import meeting
from ding_lite.utils.ranks.collectives import (
    all_gather_object,
    allreduce_data,
    broadcast_object_list,
    get_rank,
    get_world_size,
)
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.ranks.machine_group import SLOT, describe_ranks, machine_group
from ding_lite.utils.ranks.signing import Signer
from tests.distributed.launcher import finish, run_ranks, say, start_by_hand
from tests.distributed.on_ranks import call_on_ranks

ME = ["-m", "tests.distributed.call", __name__]
LARGE = SLOT // 8 + 1  # float64 numbers that do not fit


def count_wrong_barriers(number: int) -> int:
    """Pass barriers; before each, write its number; return how often another rank's number was not that."""
    group, size = machine_group(), get_world_size()
    memory = group.allocate(8 * 8 * size)
    cell_R = memoryview(memory).cast("q")[::8]
    wrong = 0
    for turn in range(0, number, 2):
        cell_R[get_rank()] = turn
        group.barrier()
        wrong += any(cell != turn for cell in cell_R)
        group.barrier()  # all have looked
    return wrong


def count_wrong_sums(number: int) -> int:
    """Add up numbers of changing length; return how many sums were not what they are in one process."""
    group, ranks, wrong = machine_group(), range(get_world_size()), 0
    for turn in range(number):
        size = 1 + turn % 50
        parts = [np.arange(size) * 0.1 + turn * (rank + 1) for rank in ranks]
        expected = np.sum(parts, axis=0)
        total = group.sum(parts[get_rank()])
        wrong += not (np.array_equal(total, expected) if group.machines == 1 else np.allclose(total, expected, 1e-12))
        if turn % 97 == get_rank():
            time.sleep(random.random() * 0.002)  # the others wait
    return wrong


def count_wrong_objects(number: int) -> int:
    wrong = 0
    for turn in range(number):
        size = 10 ** (turn % 6)  # the largest does not fit into a slot
        objects: list[Any] = [get_rank(), "x" * size]
        broadcast_object_list(objects, src=turn % get_world_size())
        wrong += objects != [turn % get_world_size(), "x" * size]
        own = (get_rank(), "y" * (size if get_rank() == 0 else 1))
        wrong += all_gather_object(own) != [(r, "y" * (size if r == 0 else 1)) for r in range(get_world_size())]
    return wrong


def find_average() -> list[float]:
    """Return the mean of gradients; those of rank r are r + 1 for the bias, and ten times that for the weight."""
    module = nn.Linear(3, 2)
    flat = FlatParameters(module, share_memory=True)
    for _ in range(2):  # the memory is used again
        flat.zero_grad()
        for number, gradient in enumerate([module.bias.grad, module.weight.grad]):
            assert gradient is not None
            gradient.fill_((get_rank() + 1) * 10**number)
        flat.average_grad()
    assert flat.is_shared
    gradients = [module.bias.grad, module.weight.grad]
    return [value for gradient in gradients if gradient is not None for value in gradient.unique().tolist()]


def run_machines(folder: str) -> None:
    """Behave as if each two ranks were a machine: they share memory with one another, and send to the others."""
    rank = int(os.environ["RANK"])
    meeting.machine_id = lambda: f"machine {rank // 2}"
    if rank == 4:
        meeting.ORDERED = ()  # the last machine has a processor that does not order writes
    with DDPContext(timeout=120):
        group = machine_group()
        found: dict[str, Any] = {"ranks": group.ranks, "machines": group.machines, "average": find_average()}
        total = allreduce_data({"a": rank, "b": torch.tensor([0.5, rank])})
        found["total"] = [total["a"], *total["b"].tolist()]
        found["objects"] = all_gather_object(f"rank {rank}")
        found["sums"] = count_wrong_sums(200)
        found["words"] = describe_ranks()
    Path(folder, f"rank{rank}.json").write_text(json.dumps(found))


def run_extra() -> None:
    """Rank 1 alone makes one call more."""
    with DDPContext(timeout=60):
        machine_group()
        if get_rank() == 1:
            broadcast_object_list([1], src=1)
        broadcast_object_list([get_rank()])
        say(f"rank {get_rank()} goes on")


def exchange_with_a_stranger() -> str:
    """Return the error if the other rank does not know the secret."""
    signer = Signer(b"secret" if get_rank() == 0 else b"guess")
    with pytest.raises(RuntimeError) as caught:
        groups.exchange_bytes(b"bytes", signer)
    return str(caught.value)


def run_own_group(how: str) -> None:
    """Rank 1 of a group that the user made ends, or works for long, while rank 0 waits for it without `DDPContext`."""
    os.environ["DING_LITE_TIMEOUT"] = "3" if how == "works" else "60"
    dist.init_process_group("gloo")
    machine_group()
    start = time.monotonic()
    if get_rank() == 1:
        time.sleep(12 if how == "works" else 0)
        os._exit(0)
    try:
        allreduce_data(1)
    except dist.DistNetworkError as error:
        say(f"{error} {time.monotonic() - start:.0f}")
    os._exit(1)  # which ends rank 1


def look(barriers: int, sums: int) -> dict[str, Any]:
    """Return what this rank finds of the group of one machine."""
    group = machine_group()
    found: dict[str, Any] = {"ranks": group.ranks, "machines": group.machines}
    found |= {"wrong barriers": count_wrong_barriers(barriers), "wrong sums": count_wrong_sums(sums)}
    found["wrong objects"] = count_wrong_objects(60)
    found["large"] = allreduce_data(torch.full((LARGE,), get_rank() + 1.0)).unique().tolist()
    before = group.met
    allreduce_data({"a": 1, "b": 2.0, "c": torch.ones(3)})
    found["meetings of a dict"] = group.met - before
    found["no room"] = group.allocate(1 << 50) is None
    groups.create_memory = lambda length: None
    return found | {"no memory": group.allocate(100) is None}


@pytest.mark.parametrize(
    ("nproc", "barriers", "sums"),
    [
        (3, 1000, 500),  # more ranks than cores, while another process takes a core
        *(pytest.param(nproc, 1_000_000, 100_000, marks=pytest.mark.survival) for nproc in (2, 4)),
    ],
)
def test_nothing_is_read_before_it_is_written_and_what_does_not_fit_travels(
    nproc: int, barriers: int, sums: int
) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as hog:
        try:
            found = call_on_ranks(look, barriers, sums, nproc=nproc, timeout=120 if barriers == 1000 else 1500)
        finally:
            hog.kill()
    expected = {"ranks": list(range(nproc)), "machines": 1, "wrong barriers": 0, "wrong sums": 0, "wrong objects": 0}
    expected |= {"large": [nproc * (nproc + 1) / 2], "meetings of a dict": 1, "no room": True, "no memory": True}
    assert found == [expected] * nproc


def test_ranks_of_several_machines_meet_in_memory_first_and_send_the_rest(tmp_path: Path) -> None:
    done = run_ranks(
        [*ME, "run_machines", str(tmp_path)], nproc=5, timeout=120, status=None
    )  # two machines of two ranks, one of one
    assert done.returncode == 0, done.stderr
    found = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(5)]
    assert [each["ranks"] for each in found] == [[0, 1], [0, 1], [2, 3], [2, 3], [4]]
    for each in found:
        assert each["machines"] == 3
        assert each["average"] == [3.0, 30.0]  # the mean of 1 to 5
        assert each["total"] == [10, 2.5, 10.0]
        assert each["objects"] == [f"rank {rank}" for rank in range(5)]
        assert each["sums"] == 0
        assert each["words"] == "5 (shared memory on 3 machines, gloo between them)"


def test_a_call_that_one_rank_makes_alone_is_an_error_on_all_and_is_never_a_result() -> None:
    done = run_ranks([*ME, "run_extra"], status=None)
    assert done.stdout == ""
    own, its = (f"'exchange of objects' of length {length}" for length in (1, 2))
    for rank, pair in enumerate([(own, its), (its, own)]):
        (line,) = (line for line in done.stderr.splitlines() if line.startswith(f"[rank {rank}]"))
        place = r"at \S+test_machine_group\.py:\d+, in \S+"
        assert re.search(rf"this rank {pair[0]} {place}, but rank {1 - rank} {pair[1]}\. Every rank", line), line


def test_objects_of_other_machines_are_read_only_if_a_rank_has_signed_them() -> None:
    error = "what rank {} sent is not signed with this job's secret; nothing of it was read"
    assert call_on_ranks(exchange_with_a_stranger) == [error.format(1), error.format(0)]


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("ends", r"rank 1 \(pid \d+ on \S+\) is gone: .*"),
        ("works", "Timed out after 3 s in shared memory, waiting for rank 1"),
    ],
)
def test_a_rank_that_dies_or_is_late_in_a_group_of_the_users_own_is_noticed(how: str, cause: str) -> None:
    done = run_ranks([*ME, "run_own_group", how], status=None)
    found = re.fullmatch(rf"{cause} (\d+)\n", done.stdout)
    assert found, (done.stdout, done.stderr)
    assert int(found[1]) < 12


ALONE = "from ding_lite.utils.ranks import machine_group as g; from ding_lite.utils import DDPContext\n"
ALONE += "with DDPContext(timeout=60): print(g.machine_group().machines)"


def test_ranks_of_one_machine_share_whatever_the_launcher_says() -> None:
    ranks = start_by_hand(["-c", ALONE], LOCAL_WORLD_SIZE="1", LOCAL_RANK="0")
    assert [finish(rank, 60).stdout for rank in ranks] == ["1\n", "1\n"]

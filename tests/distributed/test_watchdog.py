"""A rank that dies, fails, hangs or leaves ends the job, which names it: gloo ranks, with and without a launcher."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import torch.distributed as dist

from ding_lite.utils.checkpoint.file import atomic_file
from ding_lite.utils.ranks import meeting, watchdog
from ding_lite.utils.ranks.collectives import broadcast_object_list, get_rank
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.heartbeat import cleaning_up, heartbeat, waiting
from ding_lite.utils.ranks.interrupt import InterruptGuard
from ding_lite.utils.ranks.machine_group import machine_group
from ding_lite.utils.registry import UserError
from tests.distributed.launcher import finish, free_port, launch, say, start, start_by_hand

ME = ["-m", "tests.distributed.call", __name__]
TIMEOUT = 5.0  # seconds without progress that are a hang, here
DEAD = 15.0  # seconds, the default time-out of a dead rank
SLACK = 40.0  # seconds: a busy machine


def fail(kind: str) -> None:
    """Fail in a way."""
    say(f"fault {time.time()}")
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "raises":
        raise ValueError("boom")
    elif kind == "exits":
        os._exit(0)


def separate(where: str) -> None:
    """Behave as if each rank were on a machine of its own, perhaps in a process group that the user has made."""
    if where in ("elsewhere", "own group"):
        meeting.machine_id = lambda: uuid.uuid4().hex
    if where == "own group":
        dist.init_process_group("gloo")


def run_rank(kind: str, rank: str, where: str) -> None:
    """Iterate in lockstep; rank `rank` fails. The others wait for its message or in shared memory, or collect."""
    separate(where)
    with DDPContext(), InterruptGuard(get_rank()):
        for _ in range(3):
            heartbeat("learn")
            machine_group().barrier()
            with waiting():
                dist.all_reduce(torch.ones(1))
        if get_rank() == int(rank):
            fail(kind)
        while where == "memory":
            heartbeat("learn")
            machine_group().barrier()
        while where == "collect":
            heartbeat("collect")
            time.sleep(0.01)
        while True:
            heartbeat("learn")
            with waiting():
                dist.all_reduce(torch.ones(1))


def run_early(seconds: str, proc: str) -> None:
    """Rank 0, which keeps the store, leaves long before rank 1."""
    if proc == "missing":
        meeting.Path = lambda path: Path(f"/missing{path}")  # type: ignore[attr-defined,assignment,misc]
    with DDPContext():
        heartbeat("learn")
        if get_rank() == 1:
            for _ in range(int(float(seconds) * 100)):
                heartbeat("collect")
                time.sleep(0.01)


def run_alike(seconds: str) -> None:
    """All ranks fail for the same reason, but rank 0 has something to save first."""
    with DDPContext():
        heartbeat("learn")
        if get_rank() == 0:
            time.sleep(float(seconds))
            say("saved")
        raise UserError("not finite")


def run_long(what: str, where: str) -> None:
    """Rank 0 works longer than the time-out, makes progress meanwhile, and rank 1 waits for it."""
    separate(where)
    with DDPContext(), InterruptGuard(get_rank()) as guard:
        machine_group()
        heartbeat("learn")
        end = time.monotonic() + 2.5 * TIMEOUT
        if get_rank() == 1 and what == "is asked":
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        if get_rank() == 0 and what == "is asked":
            heartbeat("evaluate")
            while not guard.requested and time.monotonic() < end + SLACK:
                heartbeat("evaluate")
                time.sleep(0.01)
        if get_rank() == 0 and what == "writes":
            os.fsync = lambda fd: time.sleep(TIMEOUT)  # of the file, then of its directory
            with tempfile.TemporaryDirectory() as folder, atomic_file(os.path.join(folder, "file")):
                pass
        if what == "is suspended":
            subprocess.Popen(["sh", "-c", f"kill -STOP {os.getpid()}; sleep {2 * TIMEOUT}; kill -CONT {os.getpid()}"])
            if get_rank() == 0:
                time.sleep(1)
        told: list[Any] = [guard.requested]
        broadcast_object_list(told)
        say(f"rank {get_rank()} goes on, {told[0]}")


def run_cleanup(limit: str) -> None:
    """Rank 1 fails, and its clean-up blocks."""
    watchdog.CLEANUP_TIMEOUT = float(limit)
    with DDPContext():
        heartbeat("learn")
        if get_rank() == 1:
            error = ValueError("boom")
            with cleaning_up(error):
                time.sleep(600)
        while True:
            heartbeat("learn")
            machine_group().barrier()
            time.sleep(0.01)


def by_hand(words: list[str], nproc: int = 2, timeout: float = 60) -> list[subprocess.CompletedProcess[str]]:
    """Run ranks that no launcher looks after; rank 0 keeps the store."""
    ranks = start_by_hand([*ME, *words], nproc, DING_LITE_TIMEOUT=str(TIMEOUT))
    return [finish(rank, timeout) for rank in ranks]


def seconds_since_fault(*out: str) -> float:
    (told,) = re.findall(r"^fault (\S+)$", "\n".join(out), re.MULTILINE)
    return time.time() - float(told)


GONE = "is gone: it was killed, or ended without an exception"
FAULTS = [  # how and where which rank fails, what the other says of it, and after how many seconds
    ("killed", 0, "memory", GONE, DEAD),
    ("killed", 0, "collect", GONE, DEAD),
    ("raises", 1, "wait", "failed: ValueError: boom", DEAD),
    ("stopped", 0, "memory", r"gave no sign of life .*its process is stopped", TIMEOUT),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0]}-{fault[1]}-{fault[2]}")
def test_without_a_launcher_the_other_rank_ends_and_names_the_lost_one(fault: tuple[str, int, str, str, float]) -> None:
    """`tests/survival/faults.py` has more kinds, in whole runs."""
    kind, rank, where, cause, limit = fault
    done = by_hand(["run_rank", kind, str(rank), where])
    assert seconds_since_fault(*(one.stdout for one in done)) < limit + SLACK
    other = done[1 - rank]
    assert other.returncode == 1
    (line,) = other.stderr.splitlines()  # no traceback, neither python's nor C++'s
    assert re.match(rf"\[rank {1 - rank}\] ends because rank {rank} \(pid \d+ on \S+\):? {cause}", line)


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_rank_of_another_machine_that_falls_silent_is_lost(rank: int) -> None:
    done = by_hand(["run_rank", "killed", str(rank), "elsewhere"], nproc=3)  # rank 2 reads no reports of rank 1
    assert seconds_since_fault(*(one.stdout for one in done)) < DEAD + SLACK
    what = "not heard of" if rank else "which keeps the store"
    for other in {0, 1, 2} - {rank}:
        line = rf"^\[rank {other}\] ends because rank {rank} .*{what}"
        assert re.search(line, done[other].stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("kind", "launcher", "last"),
    [("raises", "launch", "ValueError: boom"), ("exits", "run", "lost another rank: rank 1")],
)
def test_the_last_lines_of_the_launcher_name_rank_and_cause(
    kind: str, launcher: Literal["run", "launch"], last: str
) -> None:
    env = {"DING_LITE_TIMEOUT": str(TIMEOUT)}
    done = launch([*ME, "run_rank", kind, "1", "wait"], nproc=3 if kind == "exits" else 2, launcher=launcher, env=env)
    assert done.returncode == 1
    assert seconds_since_fault(done.stdout) < DEAD + SLACK
    told = "\n".join(done.stderr.splitlines()[-9:])
    assert "Root Cause" in told
    assert last in told
    if kind != "exits":  # with status 0 the launcher takes it for a success
        assert re.search(r"rank +: 1 ", told)


def test_a_launcher_that_is_killed_takes_its_ranks_along() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"]
    process = start([*command, *ME, "run_rank", "nothing", "0", "wait"])
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("fault")
    finally:
        os.kill(process.pid, signal.SIGKILL)
    done = finish(process, timeout=DEAD + SLACK)  # ends when nobody has its pipes any more
    for rank in range(2):
        assert f"[rank {rank}] ends because torch's launcher" in done.stderr


@pytest.mark.parametrize("proc", ["there", pytest.param("missing", marks=pytest.mark.slow)])
def test_a_rank_that_leaves_early_is_not_lost(proc: str) -> None:
    done = by_hand(["run_early", "3", proc])
    assert [(one.returncode, one.stderr) for one in done] == [(0, ""), (0, "")]


@pytest.mark.parametrize(
    ("what", "where"),
    [("is suspended", "memory"), ("is asked", "elsewhere"), ("is asked", "own group"), ("writes", "memory")],
)
def test_a_rank_waits_for_one_that_makes_progress_longer_than_the_time_out(what: str, where: str) -> None:
    done = by_hand(["run_long", what, where])
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    assert [one.stdout for one in done] == [f"rank {rank} goes on, {what == 'is asked'}\n" for rank in range(2)]


# seconds that a clean-up may take; less and more than the time-out
@pytest.mark.parametrize("limit", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_an_error_whose_clean_up_blocks_is_told_to_all(limit: int) -> None:
    done = by_hand(["run_cleanup", str(limit)])
    assert [one.returncode for one in done] == [1, 1]
    told = f"[rank 1] ValueError: boom\n[rank 1] Cleaning up after this error takes more than {min(limit, 5)} s"
    assert told in done[1].stderr
    assert re.match(r"\[rank 0\] ends because rank 1 \(.*\): failed: ValueError: boom\n", done[0].stderr)


def test_ranks_that_fail_alike_wait_for_one_that_still_saves() -> None:
    done = launch([*ME, "run_alike", "2.5"])
    assert "saved" in done.stdout.splitlines()
    assert re.findall(r"^\[rank \d\].*$", done.stderr, re.MULTILINE) == ["[rank 0] not finite"]  # told once

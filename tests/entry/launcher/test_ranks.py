"""Ranks that our launcher starts: restarts, signals, what is said, and that nothing is left."""

from __future__ import annotations

import re
import signal
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from ding_lite.entry.launcher.ranks import Cause, first_failure, read_cause
from ding_lite.utils.ranks.heartbeat import record_cause
from tests.distributed.launcher import Forked, finish, start_forked

LAUNCH = """
    import signal, sys
    from ding_lite.entry.launcher.ranks import run_ranks
    for name in sys.argv[3:]:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.exit(run_ranks([sys.executable, "-u", "rank.py", sys.argv[1]], nproc=2, max_restarts=int(sys.argv[2])))
"""
RANK = """
    import os, signal, sys, time
    from tests.distributed.launcher import say

    how, rank, attempt = sys.argv[1], os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]

    def on_signal(signum, frame):
        say(f"rank {rank} got {signal.Signals(signum).name}")
        if how != "deaf":
            sys.exit(128 + signum)

    def fail():
        raise RuntimeError("the reason,\\nin two lines")

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, on_signal)
    say(f"rank {rank} attempt {attempt}")
    open(f"{rank}.{attempt}", "w").close()
    while not all(os.path.exists(f"{rank}.{attempt}") for rank in range(2)):
        time.sleep(0.01)
    if how == "ends" or (how == "killed once" and attempt == "1"):
        sys.exit(0)
    if rank == "1" and how.startswith("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == "1" and how == "fails":
        from torch.distributed.elastic.multiprocessing.errors import record
        record(fail)()
    if rank == "1" and how.startswith("status"):
        sys.exit(int(how.split()[1]))
    for _ in range(600):
        time.sleep(0.1)
        if how == "deaf":
            say(f"rank {rank} goes on")
"""


def start_ranks(folder: Path, how: str, max_restarts: int, ignored: Sequence[str] = ()) -> Forked:
    (folder / "launch.py").write_text(textwrap.dedent(LAUNCH))
    (folder / "rank.py").write_text(textwrap.dedent(RANK))
    (folder / "tmp").mkdir()
    words = ["launch.py", how, str(max_restarts), *ignored]
    return start_forked(words, {"TMPDIR": str(folder / "tmp")}, cwd=folder)


def end(process: Forked, folder: Path) -> tuple[int, list[str], list[str]]:
    """Return status, what the ranks said, and what the launcher said; the end of the output is that of all of them."""
    done = finish(process, timeout=60)
    assert not list((folder / "tmp").iterdir())
    said = done.stderr.splitlines()
    first = next((i for i, line in enumerate(said) if line.startswith("ding_lite:")), len(said))
    return done.returncode, sorted(done.stdout.splitlines()), said[first:]


def run(folder: Path, how: str, max_restarts: int = 0) -> tuple[int, list[str], str]:
    status, ranks, said = end(start_ranks(folder, how, max_restarts), folder)
    assert all(len(line) <= 80 for line in said)
    attempts = [line for line in ranks if "attempt" in line]
    return status, attempts, " ".join(line.strip() for line in said)


FIRST = ["rank 0 attempt 0", "rank 1 attempt 0"]
BOTH = ["rank 0 attempt 0", "rank 0 attempt 1", "rank 1 attempt 0", "rank 1 attempt 1"]


def test_a_job_that_ends_well_is_not_talked_about(tmp_path: Path) -> None:
    assert run(tmp_path, "ends", max_restarts=1) == (0, FIRST, "")


def test_a_killed_rank_is_named_and_all_are_restarted_as_often_as_allowed(tmp_path: Path) -> None:
    status, attempts, said = run(tmp_path, "killed", max_restarts=1)
    assert (status, attempts) == (1, BOTH)
    first, _, last = said.partition(" All ranks start again, restart 1 of 1. ")
    for line in (first, last):
        assert re.fullmatch(r"ding_lite: Rank 1 on \S+ \(pid \d+\) was killed by SIGKILL\.", line)


def test_a_job_that_recovers_ends_well(tmp_path: Path) -> None:
    status, attempts, said = run(tmp_path, "killed once", max_restarts=3)
    assert (status, attempts) == (0, BOTH)
    assert said.count("ding_lite:") == 1


def test_the_last_line_tells_what_the_failed_rank_recorded(tmp_path: Path) -> None:
    status, attempts, said = run(tmp_path, "fails")
    assert (status, attempts) == (1, FIRST)
    assert said.startswith("ding_lite: Rank 1 on ")
    assert said.endswith("ended with status 1: RuntimeError: the reason, in two lines")


@pytest.mark.parametrize(("code", "talks"), [(2, True), (130, False), (138, False), (143, False)])
def test_mistakes_and_interrupts_of_single_ranks_are_not_restarted(tmp_path: Path, code: int, talks: bool) -> None:
    status, attempts, said = run(tmp_path, f"status {code}", max_restarts=3)
    assert (status, attempts) == (code, FIRST)
    assert bool(said) == talks


def wait_for(process: Forked, *lines: str) -> None:
    """Read what the ranks print until all these lines were there."""
    missing = set(lines)
    while missing:
        line = process.stdout.readline()
        assert line, missing
        missing.discard(line.strip())


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signals_reach_all_ranks_and_the_status_tells_which(tmp_path: Path, signum: signal.Signals) -> None:
    process = start_ranks(tmp_path, "waits", max_restarts=3)
    wait_for(process, *FIRST)
    process.send_signal(signum)
    status, ranks, said = end(process, tmp_path)
    assert (status, said) == (128 + signum, [])
    assert ranks == [f"rank {rank} got {signum.name}" for rank in range(2)]


def test_in_the_background_of_a_script_sigint_ends_a_job_and_nohup_is_respected(tmp_path: Path) -> None:
    process = start_ranks(tmp_path, "waits", max_restarts=0, ignored=["SIGINT", "SIGHUP"])
    wait_for(process, *FIRST)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    status, ranks, said = end(process, tmp_path)
    assert (status, said) == (128 + signal.SIGINT, [])
    assert ranks == [f"rank {rank} got SIGINT" for rank in range(2)]


def test_only_a_second_ctrl_c_kills_ranks_that_are_still_saving(tmp_path: Path) -> None:
    process = start_ranks(tmp_path, "deaf", max_restarts=3)
    wait_for(process, *FIRST)
    process.send_signal(signal.SIGUSR1)
    wait_for(process, "rank 0 got SIGUSR1", "rank 1 got SIGUSR1")
    process.send_signal(signal.SIGTERM)
    for _ in range(10):
        wait_for(process, "rank 0 goes on", "rank 1 goes on")
    process.send_signal(signal.SIGINT)
    status, _, said = end(process, tmp_path)
    assert (status, said) == (128 + signal.SIGINT, [])


def failure(folder: Path, exitcode: int, message: str = "") -> ProcessFailure:
    path = folder / f"{exitcode}.json"
    if message:
        record_cause(message, str(path), lost_peer=message.startswith("lost"))
    return ProcessFailure(local_rank=0, pid=1, exitcode=exitcode, error_file=str(path))


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        ((1, ""), (-9, "")),
        ((1, "lost another rank: rank 1 is gone"), (-9, "")),
        ((1, "lost another rank: rank 1 is gone"), (1, "RuntimeError: boom")),
        ((1, ""), (3, "RuntimeError: boom")),
        ((-15, ""), (1, "")),
        ((143, ""), (1, "RuntimeError: boom")),
    ],
)
def test_the_rank_that_failed_by_itself_is_named_not_those_that_lost_it(
    tmp_path: Path, other: tuple[int, str], cause: tuple[int, str]
) -> None:
    (tmp_path / "1").mkdir()
    failures = {0: failure(tmp_path, *other), 1: failure(tmp_path / "1", *cause)}
    assert first_failure(failures)[0] == 1


def test_what_a_rank_left_is_read_by_its_fields(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    record_cause("UserError: kind: two\nlines", str(path), "a traceback", mistake="kind: two\nlines")
    left = ProcessFailure(local_rank=0, pid=1, exitcode=2, error_file=str(path))
    assert read_cause(left) == Cause("UserError: kind: two lines", "a traceback", "kind: two\nlines", lost_peer=False)
    nothing = ProcessFailure(local_rank=0, pid=1, exitcode=2, error_file=str(tmp_path / "none"))
    assert read_cause(nothing) == Cause()

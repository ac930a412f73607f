"""`launch`: what comes back from fresh processes, what is raised when one fails, and that the caller stays as it was.

The ranks import this file for the functions at its top.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import textwrap
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.entry import LaunchError, launch
from ding_lite.utils import UserError, allreduce_data, get_rank, get_world_size
from tests.distributed.launcher import Forked, finish, start_forked
from tests.run.helpers import CONFIG, SHORT, pair, result
from tests.survival.common import wait_until

# What the ranks run.


def add(tensor: torch.Tensor, offset: int = 0) -> dict[str, Any]:
    mean = allreduce_data(tensor + offset + get_rank(), "mean")
    return {"mean": mean, "size": get_world_size(), "pid": os.getpid(), "folder": os.getcwd()}


def fail_on_rank_1(marker: str) -> None:
    attempt = "second" if os.path.exists(marker) else "first"
    allreduce_data(1)
    if get_rank() == 1:
        Path(marker).touch()
        raise ArithmeticError(f"the {attempt} attempt,\nin two lines")
    allreduce_data(1)


def return_a_generator() -> Any:
    return (number for number in range(3))


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Nothing of a launch stays in this process (conftest.py looks at more) or in the folder for temporary files."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # which launch sets for the ranks

    def state() -> list[Any]:
        log = logging.getLogger("torch.distributed.elastic")
        return [list(sys.path), list(sys.argv), os.getcwd(), log.propagate, list(log.handlers)]

    before = state()
    yield
    assert state() == before
    assert not list((tmp_path / "tmp").iterdir())


def test_a_function_runs_on_fresh_processes_and_rank_0s_result_comes_back(tmp_path: Path) -> None:
    values = torch.arange(3.0)
    two = launch(add, 2, args=(values,), kwargs={"offset": 10})
    assert torch.equal(two.pop("mean"), values + 10 + 0.5)  # the mean of ranks 0 and 1
    assert two.pop("pid") != os.getpid()
    assert two == {"size": 2, "folder": str(tmp_path)}


def test_the_failing_rank_is_raised_with_its_traceback_after_the_allowed_restarts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(fail_on_rank_1, 2, args=(str(tmp_path / "marker"),), max_restarts=1)
    error, text = caught.value, str(caught.value)
    assert (error.rank, error.exitcode) == (1, 1)
    assert text.startswith("Rank 1 on ")
    assert "ended with status 1:\n\nTraceback (most recent call last):\n" in text
    assert 'raise ArithmeticError(f"the {attempt} attempt,\\nin two lines")' in text
    assert text.endswith("ArithmeticError: the second attempt,\nin two lines\n")
    said = capfd.readouterr().err
    assert "[rank 1] ArithmeticError: the first attempt," in said
    assert "All ranks start again, restart 1 of 1." in said
    assert "[rank 1] ArithmeticError: the second attempt," not in said  # the caller has it


def test_a_mistake_on_a_rank_is_raised_as_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError) as caught:
        launch(return_a_generator, max_restarts=3)
    assert "the function returned generator <generator" in str(caught.value)
    assert "cannot pickle 'generator' object. Return numbers," in str(caught.value)
    assert caught.value.__notes__ == ["(raised on rank 0)"]
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_config_trains_in_its_pipeline_and_tells_what_the_run_found(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()  # an older run's
    kwargs = {"seed": 3, "max_env_step": 320, "overrides": SHORT}
    told = launch(pair(), 2, kwargs=kwargs)
    folder = Path(told.pop("exp_dir"))
    assert folder.name.startswith("run_")
    assert told == result(folder)
    assert (told["world_size"], told["envstep"], told["seed"]) == (2, 320, 3)
    with pytest.raises(UserError, match=r"serial_pipeline takes no 'max_env_steps'\. Did you mean 'max_env_step'\?"):
        launch(CONFIG, kwargs={"max_env_steps": 80})


def in_a_session() -> types.FunctionType:
    function: Any = types.FunctionType(add.__code__, globals(), "typed")
    function.__module__, function.__qualname__ = "__main__", "typed"
    return function


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (lambda: 1, {}, "cannot import '.*<lambda>': define it with def at the top of a file"),
        (in_a_session(), {}, "cannot import 'typed' of an interactive session: put it into a file"),
        (add, {"args": (lambda: 1,)}, "'add' and its arguments are sent to the ranks pickled, but one cannot be: "),
        (add, {"nproc_per_node": 0}, "expected nproc_per_node >= 1 and max_restarts >= 0, whole numbers, got 0 and 0"),
        (add, {"max_restarts": -1}, "got 1 and -1"),
        ("config.py", {"args": (1,)}, "a config takes no args"),
    ],
)
def test_mistakes_of_the_caller_start_no_process(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any] | str, options: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr("ding_lite.launch.launcher.supervise", None)
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))  # has no file, as in a session
    with pytest.raises(UserError, match=message):
        launch(function, **options)


def test_a_rank_may_not_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="this process is a rank already"):
        launch(add)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name)


SCRIPT = """
import os, sys, time
from ding_lite.entry import launch
from ding_lite.utils import get_rank

def wait(folder):
    open(f"{folder}/{get_rank()}.{os.getpid()}", "w").close()
    time.sleep(100)

class Number:
    value = 20

def square(number):
    return number.value**2 + get_rank()

def main():
    if sys.argv[1] == "square":
        print(launch(square, args=(Number(),)))
        return
    try:
        launch(wait, int(sys.argv[2]), args=(sys.argv[1],))
    except KeyboardInterrupt:
        print("interrupted")
"""


def script(folder: Path, name: str, end: str) -> str:
    (folder / name).write_text(textwrap.dedent(SCRIPT) + end)
    return str(folder / name)


def test_functions_of_a_script_are_found_and_one_without_a_guard_ends_in_one_line(tmp_path: Path) -> None:
    guarded = script(tmp_path, "guarded.py", 'if __name__ == "__main__":\n    main()\n')
    unguarded = script(tmp_path, "unguarded.py", "main()\n")
    processes = [start_forked([path, "square"]) for path in (guarded, unguarded)]
    good, bad = (finish(process, timeout=150) for process in processes)
    assert (good.returncode, good.stdout) == (0, "400\n"), good.stderr
    assert bad.returncode == 1
    assert "Put the call below `if __name__ == '__main__':`." in bad.stderr.splitlines()[-2]


def test_ctrl_c_and_the_callers_death_leave_no_process(tmp_path: Path) -> None:
    path = script(tmp_path, "waits.py", 'if __name__ == "__main__":\n    main()\n')
    processes = []
    for name, size in (("interrupted", 2), ("killed", 1)):
        (tmp_path / name).mkdir()
        processes.append(start_forked([path, str(tmp_path / name), str(size)]))
    wait_until(lambda: len(list(tmp_path.glob("*/*.*"))) == 3, processes[0], 150)
    pids = [int(path.suffix[1:]) for path in tmp_path.glob("*/*.*")]
    interrupted, killed = processes
    interrupted.send_signal(signal.SIGINT)
    killed.send_signal(signal.SIGKILL)
    out, _ = interrupted.communicate(timeout=150)
    assert (interrupted.returncode, out) == (0, "interrupted\n")
    wait_until(lambda: not any(map(is_running, pids)), None, 10)
    for process in processes:
        finish(process, timeout=10)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


LAUNCH = """
    import signal, sys
    from ding_lite.launch.launcher import run_ranks
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
    time.sleep(0.5)  # a forked rank is faster than its launcher, which has to know it before it gets a signal
    say(f"rank {rank} attempt {attempt}")
    open(f"{rank}.{attempt}", "w").close()
    while not all(os.path.exists(f"{rank}.{attempt}") for rank in range(2)):
        time.sleep(0.01)
    if how == "killed once" and attempt == "1":
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
    words = ["launch.py", how, str(max_restarts), *ignored]
    return start_forked(words, {"TMPDIR": str(folder / "tmp")}, cwd=folder)


def end(process: Forked, folder: Path) -> tuple[int, list[str], list[str]]:
    """Return status, what the ranks said, and what the launcher said; the end of the output is that of all of them."""
    done = finish(process, timeout=60)
    assert not list((folder / "tmp").iterdir())
    said = done.stderr.splitlines()
    first = next((i for i, line in enumerate(said) if line.startswith("ding_lite:")), len(said))
    return done.returncode, sorted(done.stdout.splitlines()), said[first:]


FIRST = ["rank 0 attempt 0", "rank 1 attempt 0"]
BOTH = ["rank 0 attempt 0", "rank 0 attempt 1", "rank 1 attempt 0", "rank 1 attempt 1"]


LAST = r"ding_lite: Rank 1 on \S+ \(pid \d+\) "


@pytest.mark.parametrize(
    ("how", "status", "attempts", "last"),
    [
        ("killed once", 0, BOTH, ""),
        ("killed", 1, BOTH, f"{LAST}was killed by SIGKILL\\."),
        ("fails", 1, FIRST, f"{LAST}ended with status 1: RuntimeError: the reason, in two lines"),
        ("status 2", 2, FIRST, f"{LAST}ended with status 2\\..*"),  # a mistake
        ("status 143", 143, FIRST, ""),  # an interrupt
        *(pytest.param(f"status {c}", c, FIRST, "", marks=pytest.mark.slow) for c in (130, 138)),
    ],
    ids=lambda value: value if isinstance(value, str) and "Rank" not in value else "",
)
def test_failures_of_a_rank_are_restarted_as_often_as_allowed_and_told(
    tmp_path: Path, how: str, status: int, attempts: list[str], last: str
) -> None:
    told, ranks, said = end(start_ranks(tmp_path, how, max_restarts=int(how != "fails")), tmp_path)
    assert (told, [line for line in ranks if "attempt" in line]) == (status, attempts)
    assert all(len(line) <= 80 for line in said)
    whole = " ".join(line.strip() for line in said)
    first, again, end_of_all = whole.rpartition(" All ranks start again, restart 1 of 1.")
    assert bool(again) == (attempts == BOTH)
    assert re.fullmatch(f"{LAST}.*", first) or not again
    assert re.fullmatch(last, end_of_all.strip())


def wait_for(process: Forked, *lines: str) -> None:
    """Read what the ranks print until all these lines were there."""
    missing = set(lines)
    while missing:
        line = process.stdout.readline()
        assert line, missing
        missing.discard(line.strip())


@pytest.mark.parametrize(
    "signum", [signal.SIGINT, *(pytest.param(s, marks=pytest.mark.slow) for s in (signal.SIGTERM, signal.SIGUSR1))]
)
def test_signals_reach_all_ranks_also_in_the_background_of_a_script(tmp_path: Path, signum: signal.Signals) -> None:
    process = start_ranks(tmp_path, "waits", max_restarts=3, ignored=["SIGINT", "SIGHUP"])  # nohup is respected
    wait_for(process, *FIRST)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signum)
    status, ranks, said = end(process, tmp_path)
    assert (status, said) == (128 + signum, [])
    assert ranks == [f"rank {rank} got {signum.name}" for rank in range(2)]


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

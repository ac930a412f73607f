"""`launch`: what comes back from fresh processes, what is raised when one fails, and that the caller stays as it was.

The ranks import this file for the functions at its top.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import textwrap
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from ding_lite.entry import LaunchError, launch
from ding_lite.entry.launcher.function import _explain
from ding_lite.utils import UserError, allreduce_data, get_rank, get_world_size
from tests.distributed.launcher import finish, start_forked
from tests.entry.helpers import CONFIG, SHORT, pair, result

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
    """Nothing of a launch stays in this process, or in the folder for temporary files."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # which launch sets for the ranks

    def state() -> list[Any]:
        log = logging.getLogger("torch.distributed.elastic")
        others = signal.valid_signals() - {signal.SIGALRM}  # which belongs to time-outs of tests
        handlers = [signal.getsignal(number) for number in others]
        kept = (
            list(sys.path),
            list(sys.argv),
            os.getcwd(),
            threading.active_count(),
            multiprocessing.active_children(),
        )
        variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        return [variables, handlers, log.propagate, list(log.handlers), dist.is_initialized(), *kept]

    before = state()
    yield
    deadline = time.time() + 5
    while state() != before and time.time() < deadline:
        time.sleep(0.05)  # a thread of torch's launcher may take a moment to end
    assert state() == before
    assert not list((tmp_path / "tmp").iterdir())


def test_a_function_runs_on_fresh_processes_and_rank_0s_result_comes_back(tmp_path: Path) -> None:
    values = torch.arange(3.0)
    one = launch(add, args=(values,))
    two = launch(add, 2, args=(values,), kwargs={"offset": 10})
    assert torch.equal(one.pop("mean"), values)
    assert torch.equal(two.pop("mean"), values + 10 + 0.5)  # the mean of ranks 0 and 1
    assert (one.pop("size"), two.pop("size")) == (1, 2)
    assert len({os.getpid(), one.pop("pid"), two.pop("pid")}) == 3
    assert one == two == {"folder": str(tmp_path)}


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


@pytest.mark.parametrize(
    ("exitcode", "text"),
    [(-9, "(pid 5) was killed by SIGKILL"), (3, "(pid 5) ended with status 3"), (143, ": interrupted by SIGTERM.")],
)
def test_a_rank_that_left_no_word_is_still_described(exitcode: int, text: str) -> None:
    failure = ProcessFailure(local_rank=1, pid=5, exitcode=exitcode, error_file="none")
    error = _explain(ChildFailedError("launch", {1: failure}))
    assert isinstance(error, LaunchError)
    assert str(error).startswith("Rank 1 on ")
    assert str(error).endswith(text)
    assert (error.rank, error.exitcode) == (1, exitcode)


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
    monkeypatch.setattr("ding_lite.entry.launcher.ranks.supervise", None)
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


def test_functions_and_classes_of_a_script_are_found_and_one_without_a_guard_ends_in_one_line(tmp_path: Path) -> None:
    guarded = script(tmp_path, "guarded.py", 'if __name__ == "__main__":\n    main()\n')
    unguarded = script(tmp_path, "unguarded.py", "main()\n")
    processes = [start_forked([path, "square"]) for path in (guarded, unguarded)]
    good, bad = (finish(process, timeout=150) for process in processes)
    assert (good.returncode, good.stdout) == (0, "400\n"), good.stderr
    assert bad.returncode == 1
    assert "Put the call below `if __name__ == '__main__':`." in bad.stderr.splitlines()[-2]


def test_ctrl_c_and_the_callers_death_leave_no_process(tmp_path: Path) -> None:
    path = script(tmp_path, "waits.py", 'if __name__ == "__main__":\n    main()\n')
    processes, pids = [], []
    for name, size in (("interrupted", 2), ("killed", 1)):
        (tmp_path / name).mkdir()
        processes.append(start_forked([path, str(tmp_path / name), str(size)]))
    for name, size in (("interrupted", 2), ("killed", 1)):
        deadline = time.time() + 150
        while len(files := list((tmp_path / name).iterdir())) < size:
            assert time.time() < deadline
            time.sleep(0.05)
        pids += [int(file.suffix[1:]) for file in files]
    interrupted, killed = processes
    interrupted.send_signal(signal.SIGINT)
    killed.send_signal(signal.SIGKILL)
    out, _ = interrupted.communicate(timeout=150)
    assert (interrupted.returncode, out) == (0, "interrupted\n")
    deadline = time.time() + 10
    while alive := [pid for pid in pids if is_running(pid)]:
        assert time.time() < deadline, alive
        time.sleep(0.05)
    for process in processes:
        finish(process, timeout=10)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False

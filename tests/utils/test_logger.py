"""What a run records can be read by any tool, and trouble with the disk does not end it."""

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import termios
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.utils.logger import ExperimentLogger, Progress
from tests.distributed.launcher import run_forked
from tests.survival.common import points


def read_metrics(exp_dir: Path) -> list[dict[str, Any]]:
    """Parse strictly: NaN and Infinity, which are not JSON, are errors."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in (exp_dir / "metrics.jsonl").read_text().splitlines()]


def test_lines_go_to_the_terminal_and_with_the_time_to_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with ExperimentLogger(str(tmp_path)) as logger:
        logger.info("start: 50 % of übung")
        logger.warning("slow disk")
        lines = (tmp_path / "log" / "log.txt").read_text("utf-8").splitlines()  # before close: nothing is held back
    assert [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line) for line in lines] == [
        "INFO start: 50 % of übung",
        "WARNING slow disk",
    ]
    out, err = capfd.readouterr()
    assert err == "start: 50 % of übung\nWARNING slow disk\n"
    assert out == err, "pytest redirects stdout into a file of its own"


@pytest.mark.parametrize(
    ("is_command", "terminal", "expected"),
    [(False, True, ["", "hello\n"]), (True, False, ["hello\n"] * 2), (True, True, ["hello\n", ""])],
)
def test_a_pipe_gets_the_lines_of_the_command_line_and_nothing_of_a_scripts(
    is_command: bool, terminal: bool, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, (read, write) = os.pipe(), pty.openpty() if terminal else os.pipe()
    with os.fdopen(pipe[1], "w") as out, os.fdopen(write, "w") as err:
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        monkeypatch.setattr(ExperimentLogger, "copies_to_pipes", is_command)
        with ExperimentLogger(str(tmp_path)) as logger:
            logger.info("hello")
        monkeypatch.undo()
        for end in (pipe[0], read):
            os.set_blocking(end, False)
        said = [os.read(pipe[0], 99) if expected[0] else b"", os.read(read, 99) if expected[1] else b""]
        for end in (pipe[0], read):  # nothing else has arrived
            with pytest.raises(BlockingIOError):
                os.read(end, 1)
            os.close(end)
    assert [text.decode().replace("\r", "") for text in said] == expected


def test_scalars_are_one_json_object_a_call_and_tensorboard_points(tmp_path: Path) -> None:
    with ExperimentLogger(str(tmp_path)) as logger:
        logger.scalars({"learner/loss": torch.tensor(0.5), "learner/lr": 0.25}, envstep=96, train_iter=3, seconds=1.5)
        logger.scalars(
            {"evaluator/return": np.float32(-21.0), "episodes": np.int64(2)}, envstep=192, train_iter=6, seconds=2.00049
        )
        assert len(read_metrics(tmp_path)) == 2  # before close
    metrics = read_metrics(tmp_path)
    times = [record.pop("time") for record in metrics]
    assert metrics == [
        {"envstep": 96, "train_iter": 3, "seconds": 1.5, "learner/loss": 0.5, "learner/lr": 0.25},
        {"envstep": 192, "train_iter": 6, "seconds": 2.0, "evaluator/return": -21.0, "episodes": 2},
    ]
    assert 1.7e9 < times[0] <= times[1]  # seconds since 1970
    assert points(tmp_path)[0] == [
        *((96, "learner/loss", 0.5), (96, "learner/lr", 0.25)),
        *((192, "evaluator/return", -21.0), (192, "episodes", 2.0)),
    ]


def test_metrics_that_somebody_has_altered_do_not_keep_a_run_from_going_on(tmp_path: Path) -> None:
    with ExperimentLogger(str(tmp_path)) as logger:
        logger.scalars({"loss": 3.0}, envstep=8, train_iter=1, seconds=1)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write("torn\n[]\n{}\n")
    with ExperimentLogger(str(tmp_path)) as logger:
        logger.resume(10**6, step=8)
        logger.scalars({"loss": 2.0}, envstep=16, train_iter=2, seconds=2)
    assert points(tmp_path)[0][-1] == (16, "loss", 2.0)


def test_numbers_that_json_does_not_have_become_null(tmp_path: Path) -> None:
    with ExperimentLogger(str(tmp_path)) as logger:
        logger.scalars({"a": float("nan"), "b": torch.tensor(float("inf")), "c": 1}, 0, 0, 0.0)
        logger.write_result({"best": float("-inf"), "returns": np.array([1.0, np.nan]), "steps": torch.tensor([3])})
    assert {key: read_metrics(tmp_path)[0][key] for key in "abc"} == {"a": None, "b": None, "c": 1}
    assert points(tmp_path)[0] == [(0, "c", 1.0)]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result == {"best": None, "returns": [1.0, None], "steps": [3]}


def test_other_ranks_only_warn_and_name_themselves_in_every_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with ExperimentLogger(str(tmp_path), rank=3) as logger:
        logger.info("not shown")
        logger.warning("first\nsecond")
        logger.scalars({"a": 1}, 0, 0, 0.0)
        logger.write_result({"a": 1})
    assert list(tmp_path.iterdir()) == []
    out, err = capfd.readouterr()
    assert (out, err) == ("", "[rank 3] WARNING first\n[rank 3] WARNING second\n")


def test_a_full_disk_is_reported_once_and_the_run_goes_on(tmp_path: Path) -> None:
    code = f"""
        import resource, threading
        from ding_lite.utils import logger as module
        module.EVENTS_PERIOD = 0.0
        everything = resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, everything))  # write() fails past it, as on a full disk
        with module.ExperimentLogger({str(tmp_path)!r}) as logger:
            for step in range(1000):
                logger.scalars({{"loss": 0.5}}, step, step, step)
            logger.info("still here")
            logger.write_result({{"history": ["x" * 50_000]}})
            logger.info("x" * 50_000)
            logger.info("and here")
            resource.setrlimit(resource.RLIMIT_FSIZE, (everything, everything))  # somebody has made room
            for step in range(1000, 1100):
                logger.scalars({{"loss": 0.5}}, step, step, step)
        print("end")
    """
    run = run_forked(["-c", textwrap.dedent(code)])
    assert run.stdout == "end\n"
    assert [line for line in run.stderr.splitlines() if not line.startswith("xxx")] == [
        f"WARNING cannot write to '{tmp_path}': File too large; training continues unrecorded.",
        "still here",
        "and here",
    ]
    assert not (tmp_path / "result.json").exists()
    assert not (tmp_path / "result.json.tmp").exists()
    steps = [record["envstep"] for record in read_metrics(tmp_path)]  # every line is complete
    assert steps[:200] == list(range(200))  # 20,000 bytes at about 70 a line
    assert steps[-100:] == list(range(1000, 1100))
    shown = [step for step, *_ in points(tmp_path)[0]]  # a record is about 50 bytes
    assert shown == list(range(len(shown)))
    assert len(shown) > 200


def run_in_terminal(code: str, columns: int) -> str:
    """Run python code with stderr on a terminal of that width; return all that the terminal received."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    stderr = f"import os\nos.dup2(os.open({os.ttyname(theirs)!r}, os.O_WRONLY | os.O_NOCTTY), 2)\n"
    done = run_forked(["-c", stderr + textwrap.dedent(code)], status=None)
    os.close(theirs)
    received = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while chunk := os.read(ours, 4096):
            received += chunk
    os.close(ours)
    assert done.returncode == 0
    return received.decode()


def states(received: str) -> list[str]:
    """Return what stood in the terminal's line, one string for each time that it was written."""
    return [state.rstrip() for state in re.split(r"[\r\n]+", received) if state.strip()]


BAR = """
    import time
    from ding_lite.utils.logger import Progress, console
    with Progress({total}, True, start={start}) as bar:
        for step in range(1, 6):
            time.sleep(0.12)  # tqdm draws at most every 0.1 s
            bar.update({start} + step * {step}, step, {{"return": {value}, "eval": {value}, "best": {value}}})
        console("saved iteration_5.pth.tar")
"""


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize(
    ("total", "start", "step", "value"),
    [(3_000_000, 0, 64, -19.2), (10**10, 10**9, 1, -12345.7), (3_000_000, 2_000_000, 64, None)],
    ids=["pong", "widest", "resumed"],
)
def test_the_bar_fits_the_terminal(total: int, start: int, step: int, value: float | None, columns: int) -> None:
    received = run_in_terminal(BAR.format(total=total, start=start, step=step, value=value), columns)
    drawn = [state for state in states(received) if state.startswith("step")]
    assert max(map(len, drawn)) < columns + (columns < 80)  # in the last column a terminal of 80 would wrap
    assert "saved iteration_5.pth.tar" in states(received)
    if columns < 80:
        return  # the line is cut
    assert max(map(len, re.split(r"[\r\n]+", received))) < 80
    shown = {None: "return -", -19.2: "return -19.2 eval -19.2 best -19.2"}.get(value, "return -12346 eval -12346")
    line = re.match(rf"step \S+/\S+ \| ([\d.]+k?)/s \| left [\d:]+ \| {shown}", states(received)[-1])
    assert line is not None
    assert float(line[1]) < step / 0.12  # a resumed bar counts new steps only


def test_more_steps_than_planned_and_no_plan_are_shown() -> None:
    past_end = states(run_in_terminal(BAR.format(total=300, start=0, step=64, value=1.0), columns=80))
    assert re.match(r"step 320/320 \|", past_end[-1])
    no_plan = states(run_in_terminal(BAR.format(total=None, start=0, step=64, value=1.0), columns=80))
    assert re.fullmatch(r"step 320 \| [\d.]+k?/s \| return 1\.0 eval 1\.0 best 1\.0", no_plan[-1])


def test_time_is_counted_to_where_the_run_is_expected_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("ding_lite.utils.logger.time.monotonic", lambda: now)
    lines: list[str] = []
    with Progress(3_000_000, True, log=lines.append, expected=40_000) as bar:
        for second, iteration in ((10, 0), (20, 1), (30, 11), (90, 71)):
            now = 100.0 + second
            bar.update(1000 * second - 2000 * (second == 10), iteration)  # what only collects does not count
    assert lines == [
        "step 30.0k/40.0k | 1.00k/s | left 00:10 | return - | iteration 11",
        "step 90.0k/3.00M | 1.00k/s | left 48:30 | return - | iteration 71",
    ]


def test_without_a_terminal_there_is_a_plain_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("ding_lite.utils.logger.time.monotonic", lambda: now)
    lines: list[str] = []
    with Progress(3_000_000, True, log=lines.append) as bar:
        for second in range(1, 91):
            now = 100.0 + second
            bar.update(500 * second, second, {"return": None if second < 60 else -19.25, "eval": -21.0})
    # every 30 s; 500 steps a second; (3,000,000 - 15,000) / 500 = 5,970 s left
    assert lines == [
        "step 15.0k/3.00M | 500/s | left 1:39:30 | eval -21.0 | iteration 30",
        "step 30.0k/3.00M | 500/s | left 1:39:00 | return -19.2 eval -21.0 | iteration 60",
        "step 45.0k/3.00M | 500/s | left 1:38:30 | return -19.2 eval -21.0 | iteration 90",
    ]


def test_log_lines_stand_above_the_bar_and_no_thread_is_started(tmp_path: Path) -> None:
    code = f"""
        import threading, time
        from ding_lite.utils.logger import ExperimentLogger
        from ding_lite.utils.logger import Progress
        with ExperimentLogger({str(tmp_path)!r}) as logger, Progress(1000, True, logger.info) as bar:
            time.sleep(0.2)
            bar.update(500, 1, {{"return": 2.0}})
            logger.info(f"threads: {{threading.active_count()}}")
    """
    received = run_in_terminal(code, columns=80)
    assert "\rthreads: 1\r\n" in received  # the bar was cleared first, and the line is not joined to it
    assert states(received)[-1].startswith("step 500/1.00k |")

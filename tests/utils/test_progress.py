"""The bar fits a terminal of 80 columns; without a terminal there are plain lines; other ranks show nothing."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import textwrap
from pathlib import Path

import pytest

from ding_lite.utils import progress
from ding_lite.utils.progress import Progress

ROOT = Path(__file__).resolve().parents[2]


def run_in_terminal(code: str, columns: int) -> str:
    """Run python code with stderr on a terminal of that width; return all that the terminal received."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-c", textwrap.dedent(code)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=theirs, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    os.close(theirs)
    received = b""
    try:
        while chunk := os.read(ours, 4096):
            received += chunk
    except OSError:
        pass  # EIO: the other end is closed
    os.close(ours)
    assert process.wait(timeout=30) == 0
    return received.decode()


def states(received: str) -> list[str]:
    """Return what stood in the terminal's line, one string for each time that it was written."""
    return [state.rstrip() for state in re.split(r"[\r\n]+", received) if state.strip()]


BAR = """
    import time
    from ding_lite.utils.progress import Progress, console
    with Progress({total}, True, start={start}) as bar:
        for step in range(1, 6):
            time.sleep(0.12)  # tqdm draws at most every 0.1 s
            bar.update({start} + step * {step}, step, {{"return": {value}, "eval": {value}, "best": {value}}})
        console("saved iteration_5.pth.tar")
"""


@pytest.mark.parametrize(
    ("total", "start", "step", "value"),
    [(3_000_000, 0, 64, -19.2), (10**10, 10**9, 1, -12345.7), (3_000_000, 2_000_000, 64, None)],
    ids=["pong", "widest", "resumed"],
)
def test_the_bar_fits_80_columns(total: int, start: int, step: int, value: float | None) -> None:
    received = run_in_terminal(BAR.format(total=total, start=start, step=step, value=value), columns=80)
    assert max(map(len, re.split(r"[\r\n]+", received))) < 80  # in column 80 a terminal would wrap
    last = states(received)[-1]
    shown = {None: "return -", -19.2: "return -19.2 eval -19.2 best -19.2"}.get(value, "return -12346 eval -12346")
    assert re.match(rf"step \S+/\S+ \| [\d.]+k?/s \| left [\d:]+ \| {shown}", last), last
    assert "saved iteration_5.pth.tar" in states(received)


def test_a_narrow_terminal_gets_a_cut_line() -> None:
    received = run_in_terminal(BAR.format(total=3_000_000, start=0, step=64, value=-19.2), columns=40)
    drawn = [state for state in states(received) if state.startswith("step")]
    assert drawn
    assert max(map(len, drawn)) <= 40


def test_a_resumed_bar_counts_only_new_steps_for_the_rate() -> None:
    received = run_in_terminal(BAR.format(total=3_000_000, start=2_000_000, step=64, value=1.0), columns=80)
    rate = re.search(r"\| ([\d.]+)/s", states(received)[-1])  # 64 steps in 0.12 s; not 2,000,000 in 0.12 s
    assert rate is not None
    assert float(rate[1]) < 64 / 0.12


def test_more_steps_than_planned_and_no_plan_are_shown() -> None:
    past_end = states(run_in_terminal(BAR.format(total=300, start=0, step=64, value=1.0), columns=80))
    assert re.match(r"step 320/320 \|", past_end[-1])
    no_plan = states(run_in_terminal(BAR.format(total=None, start=0, step=64, value=1.0), columns=80))
    assert re.fullmatch(r"step 320 \| [\d.]+k?/s \| return 1\.0 eval 1\.0 best 1\.0", no_plan[-1])


def test_without_a_terminal_there_is_a_plain_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("ding_lite.utils.progress.time.monotonic", lambda: now)
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


def test_the_time_left_does_not_jump_after_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("ding_lite.utils.progress.time.monotonic", lambda: now)
    lines: list[str] = []
    with Progress(100_000, True, log=lines.append, start=40_000) as bar:
        for second, step in ((30, 55_000), (89, 55_500), (120, 70_000)):
            now = float(second)
            bar.update(step, 1)
    # the rate is that of the line, the time left that since the start: 44,500 * 89 / 15,500 = 255.5 s
    assert [line.split(" | ")[1:3] for line in lines] == [
        ["500/s", "left 01:30"],
        ["8.47/s", "left 04:15"],
        ["468/s", "left 02:00"],
    ]


def test_other_ranks_show_nothing(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_PERIOD", 0.0)
    lines: list[str] = []
    with Progress(100, False, log=lines.append) as bar:
        bar.update(50, 1, {"return": 1.0})
    assert lines == []
    assert capfd.readouterr() == ("", "")


def test_disabled_on_a_terminal_shows_nothing() -> None:
    code = "from ding_lite.utils.progress import Progress\nwith Progress(100, False) as bar:\n    bar.update(50, 1)"
    assert run_in_terminal(code, columns=80) == ""


def test_log_lines_stand_above_the_bar_and_no_thread_is_started(tmp_path: Path) -> None:
    code = f"""
        import threading, time
        from ding_lite.utils.logger import ExperimentLogger
        from ding_lite.utils.progress import Progress
        with ExperimentLogger({str(tmp_path)!r}) as logger, Progress(1000, True, logger.info) as bar:
            time.sleep(0.2)
            bar.update(500, 1, {{"return": 2.0}})
            logger.info(f"threads: {{threading.active_count()}}")
    """
    received = run_in_terminal(code, columns=80)
    assert "\rthreads: 1\r\n" in received  # the bar was cleared first, and the line is not joined to it
    assert states(received)[-1].startswith("step 500/1.00k |")

"""The first signal is a request, the second Ctrl-C an end; nothing else about signals changes."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.interrupt import SIGNALS, InterruptGuard, ends_at_interrupt

ROOT = Path(__file__).resolve().parents[3]
LOOP = """
    import time
    from ding_lite.utils.ranks.interrupt import InterruptGuard, ends_at_interrupt
    with InterruptGuard(rank={rank}) as guard:
        print("ready", flush=True)
        while not guard.requested:
            time.sleep(0.01)
        print("requested", guard.signum, flush=True)
        {then}
    print("saved", flush=True)
"""


def start(rank: int = 0, then: str = "pass") -> "subprocess.Popen[str]":
    code = textwrap.dedent(LOOP.format(rank=rank, then=then))
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    ("signum", "rank"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGUSR1, 0), (signal.SIGINT, 1)]
)
def test_the_first_signal_lets_the_run_finish_and_rank_0_says_one_line(signum: signal.Signals, rank: int) -> None:
    process = start(rank)
    process.send_signal(signum)
    out, err = process.communicate(timeout=30)
    assert out == f"requested {signum.value}\nsaved\n"
    assert err == ("" if rank else f"\n{signum.name}: stopping after this iteration; Ctrl-C quits at once.\n")
    assert process.returncode == 0


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize(
    "then",
    ["time.sleep(60)", "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)"],
    ids=["in python", "in a C call that never looks at signals, such as a collective"],
)
def test_a_second_ctrl_c_ends_at_once(first: signal.Signals, then: str) -> None:
    process = start(then=then)
    process.send_signal(first)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("requested")
    time.sleep(0.2)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert time.monotonic() - begin < 2.0


def test_a_second_sigterm_does_not_cut_the_saving_short() -> None:
    process = start(then="time.sleep(0.5)")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("requested")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == ("saved\n", 0)


def test_previous_handlers_come_back_also_after_an_exception() -> None:
    def mine(signum: int, frame: object) -> None: ...

    previous = {number: signal.signal(number, mine) for number in SIGNALS}
    try:
        guard = InterruptGuard(rank=1)
        with suppress(ZeroDivisionError), guard:
            os.kill(os.getpid(), signal.SIGTERM)
            raise ZeroDivisionError
        assert guard.requested
        assert guard.signum == signal.SIGTERM
        assert {signal.getsignal(number) for number in previous} == {mine}
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("block", [DDPContext, ends_at_interrupt])
def test_ctrl_c_that_nothing_handles_is_one_line_and_status_130(
    block: Callable[[], AbstractContextManager[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end, block():
        raise KeyboardInterrupt
    assert end.value.code == 130
    assert capsys.readouterr().err == "Interrupted.\n"

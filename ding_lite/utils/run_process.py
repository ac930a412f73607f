"""Child processes: runs of the command line, signals for them, and processes that end with their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Protocol

from ding_lite.utils.ranks.heartbeat import SIGNALS
from ding_lite.utils.ranks.launch_environment import usable_cores

PR_SET_PDEATHSIG = 1  # option of Linux's prctl: the signal to receive when the parent ends


class RunProcess:
    """A process of the command line, which receives SIGTERM when this process ends.

    Args:
        words: the words after `ding_lite`.
        side_by_side: number of processes that share this machine's cores, which are divided among them.
    """

    def __init__(self, words: Sequence[str], side_by_side: int = 1) -> None:
        environment = dict(os.environ)
        if side_by_side > 1:  # otherwise each would use all cores
            cores = usable_cores() // side_by_side
            environment.setdefault("OMP_NUM_THREADS", str(max(cores, 1)))
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 closed by close()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ding_lite", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,  # Ctrl-C then reaches the child once, through this process
            preexec_fn=partial(end_with_parent, signal.SIGTERM, os.getpid()),
        )

    @property
    def status(self) -> int | None:
        """Exit status, None before its end."""
        return self._process.poll()

    def send_signal(self, signum: int) -> None:
        """Send a signal, unless the process has ended."""
        self._process.send_signal(signum)

    def wait(self) -> None:
        self._process.wait()

    def last_line(self) -> str:
        """Return the last line that it printed, or else its exit status."""
        self._output.seek(0)
        said = self._output.read().strip().splitlines()
        return said[-1] if said else f"exit status {self.status}"

    def close(self) -> None:
        """Forget what it printed."""
        self._output.close()


class TakesSignals(Protocol):
    """A process of this machine, or a job of a cluster."""

    def send_signal(self, signum: int) -> None:
        """Send a signal, unless it has ended."""


@contextmanager
def passing_signals_on(processes: Callable[[], Iterable[TakesSignals]]) -> Iterator[Callable[[], int]]:
    """Return a context manager that passes this process's signals on to others.

    Its value is a function that returns the first signal that arrived, or 0.
    """
    received: list[int] = []

    def handle(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        for process in processes():
            process.send_signal(signum)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield lambda: received[0] if received else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_parent(signum: int, parent: int) -> None:
    """Let the kernel send this process a signal when its parent ends, even if the parent is killed by SIGKILL.

    If the parent has ended already, this process ends immediately, without cleaning up. On systems other than Linux
    that is all that happens.

    To the kernel, the parent ends when the thread that started this process ends. That thread must therefore live as
    long as this process. An exec keeps the setting; processes that this one forks do not inherit it.

    `parent` is its process id, which the parent itself asked for with `os.getpid()`.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:  # the parent ended before prctl was called
        os._exit(1)

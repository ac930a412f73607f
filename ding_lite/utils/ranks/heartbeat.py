"""What the main thread tells the watchdog's thread, its progress and its end, and which signals ask it to stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # SLURM can send SIGUSR1 before a time limit
INTERRUPTED = "Interrupted."


class _Waiting:
    """A context around waits for other ranks; may be nested. A wait that ends is progress."""

    __slots__ = ("depth", "ended")

    def __init__(self) -> None:
        self.depth = self.ended = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *error: object) -> None:
        self.depth -= 1
        self.ended += 1


class _Progress:
    """What the main thread tells the watchdog's thread, and hears from it.

    Attributes:
        count: number of heartbeats.
        stage: the stage of the last one.
        failure: the error after which the main thread cleans up.
        run: number of `InterruptGuard`s so far, the same on all ranks.
        asked: one cell, the number of the last run that a signal asked this rank to stop; 0: none.
        near: the same cells of the other ranks of this machine, in memory that they share.
        others_asked: the same number of the ranks that the watchdog hears of.
    """

    __slots__ = ("asked", "count", "failure", "near", "others_asked", "run", "stage")

    def __init__(self) -> None:
        self.count, self.stage = 0, ""
        self.failure: BaseException | None = None
        self.run = self.others_asked = 0
        self.asked = memoryview(bytearray(8)).cast("q")
        self.near: list[memoryview[int]] = []


progress, _waits = _Progress(), _Waiting()


def heartbeat(stage: str) -> None:
    """Report progress of the main thread; takes 0.1 us.

    A process in `DDPContext` ends if it reports none for DING_LITE_TIMEOUT seconds. Call this in work of your own that
    takes longer, such as an upload in a callback.

    Args:
        stage: what the main thread does, for messages. If empty, the detection of hangs ends until the next call.
    """
    progress.count += 1
    progress.stage = stage


@contextmanager
def cleaning_up(error: BaseException | None) -> Iterator[None]:
    """Return a context manager for the clean-up after an error: if it blocks, the process tells the error and ends."""
    progress.failure = error
    try:
        yield
    finally:
        progress.failure = None


def waiting() -> _Waiting:
    """Return a context manager that marks a wait for other ranks; a hang in it does not count as this rank's."""
    return _waits


@contextmanager
def ends_at_interrupt() -> Iterator[None]:
    """Return a context manager in which Ctrl-C ends the process with one line and status 130, as shells expect."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"{INTERRUPTED}\n")
        raise SystemExit(128 + signal.SIGINT) from None


@contextmanager
def restoring_signals(numbers: Iterable[signal.Signals] = SIGNALS) -> Iterator[None]:
    """Return a context manager that finally restores the handlers of signals; outside the main thread, it does nothing.

    Only the main thread can change them.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in numbers} if is_main else {}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not installed from python


class InterruptGuard:
    """A context in which the first of `SIGNALS` sets `requested`; a later SIGINT kills the process immediately.

    The second signal has its default action and raises no exception, so it also ends a process that waits in a
    collective. Ranks receive a signal at different times or not at all, so reduce `requested` over all ranks before
    acting on it. Outside the main thread, where Python cannot handle signals, the context does nothing.

    Args:
        rank: rank of this process; only rank 0 prints a message.

    Attributes:
        signum: the first signal that arrived, or None; shells expect the exit status `128 + signum`.
    """

    def __init__(self, rank: int = 0) -> None:
        self.signum: int | None = None
        self._rank, self._pid, self._run = rank, os.getpid(), sys.maxsize
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived at a rank, so that the run should finish the iteration, save and stop.

        Signals of other ranks of this machine are seen at once, those of other machines within two seconds, which needs
        the watchdog of `DDPContext`.
        """
        for cell in progress.near:
            if cell[0] >= self._run:
                return True
        return bool(self.signum) or progress.others_asked >= self._run

    def __enter__(self) -> InterruptGuard:
        progress.run += 1
        self._run = progress.run
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not installed from python
        self._previous = {}

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a forked worker inherits this handler, but nothing there reads `requested`
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
            return
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if not self.signum:
            self.signum = signum
            progress.asked[0] = self._run
            if self._rank == 0:
                name = signal.Signals(signum).name
                with suppress(OSError):  # os.write, because print is not reentrant
                    os.write(2, f"\n{name}: stopping after this iteration; Ctrl-C quits at once.\n".encode())

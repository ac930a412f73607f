"""Signals that ask a run to stop: it finishes its iteration and saves; a second Ctrl-C ends it at once."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from types import FrameType

from ding_lite.utils.ranks.heartbeat import progress, stop_requested

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # SLURM can send SIGUSR1 before a time limit
INTERRUPTED = "Interrupted."
PR_SET_PDEATHSIG = 1  # option of Linux's prctl: the signal to receive when the parent ends


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
    """Return a context manager that finally restores the handlers of signals, which only the main thread can change."""
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in numbers} if is_main else {}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not installed from python


@contextmanager
def blocking_signals() -> Iterator[None]:
    """Return a context manager that delays `SIGNALS` for this thread, and for the processes that it starts."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class InterruptGuard:
    """A context in which the first of `SIGNALS` sets `requested`; a later SIGINT kills the process immediately.

    The second signal has its default action and raises no exception, so it also ends a process that waits in a
    collective. Ranks receive a signal at different times or not at all, so reduce `requested` over all ranks before
    acting on it. Only rank 0 prints a message. Outside the main thread, where Python cannot handle signals, the context
    does nothing.

    Attributes:
        signum: the first signal that arrived, or None; shells expect the exit status `128 + signum`.
    """

    def __init__(self, rank: int = 0) -> None:
        self.signum: int | None = None
        self._rank, self._pid = rank, os.getpid()
        self._stack = ExitStack()

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived at a rank, so that the run should finish the iteration, save and stop."""
        return bool(self.signum) or stop_requested()

    def __enter__(self) -> InterruptGuard:
        progress.run += 1
        self._stack.enter_context(restoring_signals())
        for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
            signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a forked worker inherits this handler, but nothing there reads `requested`
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
            return
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if not self.signum:
            self.signum = signum
            progress.asked[0] = progress.run
            if self._rank == 0:
                name = signal.Signals(signum).name
                with suppress(OSError):  # os.write, because print is not reentrant
                    os.write(2, f"\n{name}: stopping after this iteration; Ctrl-C quits at once.\n".encode())


# Of several runs that one process trains in turns: a signal asks all of them to stop. None: a run has its own.
shared_guard: ContextVar[InterruptGuard | None] = ContextVar("shared_guard", default=None)


def end_with_parent(signum: int, parent: int) -> None:
    """Let the kernel send this process a signal when its parent ends, even if the parent is killed by SIGKILL.

    If the parent, whose process id is given, has ended already, this process ends immediately, without cleaning up. On
    systems other than Linux that is all that happens.

    To the kernel, the parent ends when the thread that started this process ends. That thread must therefore live as
    long as this process. An exec keeps the setting; processes that this one forks do not inherit it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:  # the parent ended before prctl was called
        os._exit(1)

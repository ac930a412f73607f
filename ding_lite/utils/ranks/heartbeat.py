"""The main thread reports progress, and a second thread ends the process if no progress comes for too long.

`watchdog` extends this to several ranks, which also watch each other.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

INTERVAL = 1.0  # seconds between two checks
CLEANUP_TIMEOUT = 30.0  # seconds that the clean-up after an error may take
LAST_WORD = 5.0  # seconds that a rank waits for the others to leave, if its end would disturb them


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


def read_seconds(name: str, default: str, given: float | None = None) -> float:
    """Return a time-out: `given`, else the environment variable `name`, else `default`.

    Raises:
        SystemExit: with one line, if it is not a number of seconds > 0.
    """
    text = os.environ.get(name, default) if given is None else str(given)
    if not re.fullmatch(r"\d*\.?\d+|\d+\.", text) or float(text) == 0:
        raise SystemExit(f"time-out ({name}): expected a number of seconds > 0, got {text!r}.")
    return float(text)


def record_cause(
    cause: str, path: str | None = None, trace: str = "", mistake: str = "", lost_peer: bool = False
) -> None:
    """Write why a rank ends to the error file. torch's launcher prints a part of it; `ding_lite` uses all of it.

    Args:
        cause: one line.
        path: the error file; None: this rank's own.
        trace: the traceback; torch's launcher would print it instead of the cause.
        mistake: the message of a `UserError`, if that is the cause.
        lost_peer: the rank ends because it lost another one.
    """
    path = path or os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        own = {"traceback": trace, "mistake": mistake, "lost_peer": lost_peer}
        more = {"py_callstack": cause, "timestamp": str(int(time.time())), **own}
        report = {"message": cause, "extraInfo": more}
        with suppress(OSError), open(path, "w") as file:
            json.dump({"message": report}, file)


class HangWatch:
    """The thread that ends this process if its main thread makes no progress outside a wait for others for `timeout`.

    A call of `heartbeat` is progress, and so are the end of a wait for other ranks, and reading or writing a file: a
    large checkpoint may take long.

    Args:
        timeout: seconds without progress that are a hang.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._clock = 0.0  # seconds that this process ran
        self._progressed = 0.0  # value of the clock at the last progress
        self._moved = 0.0  # value of the clock when the main thread last made progress, waited, or was not watched
        self._failed = 0.0  # value of the clock when the main thread last was not cleaning up after an error
        self._seen: tuple[int, str] = (0, "")  # heartbeats and ended waits, and the main thread's bytes
        self._leaving, self._stop = threading.Event(), threading.Event()
        self._main, self._io = threading.get_ident(), Path(f"/proc/self/task/{threading.get_native_id()}/io")
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread; every rank of the group must call this."""
        heartbeat("")
        self._thread.start()

    # The thread.

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(INTERVAL):
            now = time.monotonic()
            # A process that was suspended must not conclude that the others were.
            self._clock += min(now - last, 2 * INTERVAL)
            last = now
            self._observe()
            if self._clock - self._moved >= self._timeout + 2 * INTERVAL:
                self._end_hanging()
            if self._clock - self._failed >= CLEANUP_TIMEOUT:
                self._end_failed(progress.failure)
            if self._others_are_lost():
                return

    def _observe(self) -> None:
        """Find out whether the main thread has made progress."""
        waits = _waits.depth > 0
        seen = (progress.count + _waits.ended, self._seen[1] if waits else self._read_io())
        if seen != self._seen:
            self._seen, self._progressed = seen, self._clock
        if self._progressed == self._clock or waits or not progress.stage or self._leaving.is_set():
            self._moved = self._clock
        if progress.failure is None or self._leaving.is_set():
            self._failed = self._clock

    def _read_io(self) -> str:
        """Return counts of the bytes that the main thread has read and written; empty if the system counts none."""
        try:
            return self._io.read_text()
        except OSError:
            return ""

    def _end_failed(self, error: BaseException | None) -> None:
        """End the process, whose clean-up after an error blocks."""
        stack = "".join(traceback.format_stack(sys._current_frames()[self._main]))
        what = " ".join(f"{type(error).__name__}: {error}".split())
        self._say(
            f"{''.join(traceback.format_exception(error))}Cleaning up after this error takes more than "
            f"{CLEANUP_TIMEOUT:g} s; ended. It hangs here:\n{stack}"
        )
        self._tell_end(f"failed: {what}")
        os._exit(1)

    def _others_are_lost(self) -> bool:
        """Check the other ranks; return True if one is lost and this process ends."""
        return False

    def _end_hanging(self) -> None:
        seconds = self._clock - self._moved
        what = f"no progress for {seconds:.0f} s in '{progress.stage}' (time-out {self._timeout:g} s)"
        stack = "".join(traceback.format_stack(sys._current_frames()[self._main]))
        self._say(f"{what}; ended. It hangs here:\n{stack}")
        self._tell_end(what)
        os._exit(1)

    def _tell_end(self, what: str) -> None:
        """Record why this process ends."""
        record_cause(what)

    def _say(self, text: str) -> None:
        os.write(2, f"{text.rstrip()}\n".encode())

    # What the main thread calls when it leaves.

    def lost_others(self) -> bool:
        """Return whether another rank is known to be lost."""
        return False

    def explain(self, error: str) -> str:
        """Return why a collective failed; empty if the other ranks are fine."""
        return ""

    def first_mistake(self, mistake: str) -> str:
        """Return the mistake that ends rank 0, so that a mistake of all ranks is printed once; empty if unknown."""
        return ""

    def stop(self, status: int = 0, cause: str = "", alike: bool = False) -> None:
        """End the thread. With several ranks, also report how this rank leaves, and why if it failed.

        Args:
            status: exit status of this process.
            cause: one line, if it failed.
            alike: the other ranks probably fail in the same way.
        """
        self._leaving.set()
        self._stop.set()
        self._thread.join(LAST_WORD)
        heartbeat("")

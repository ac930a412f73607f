"""The main thread reports its progress, which the thread of `watchdog` observes, and the cause of its end."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


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

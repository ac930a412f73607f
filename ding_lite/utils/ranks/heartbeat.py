"""What the main thread tells the watchdog's thread, its progress and its end, and what it hears from other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class _Waiting:
    """A context around waits; may be nested."""

    __slots__ = ("depth", "ended")

    def __init__(self) -> None:
        self.depth = self.ended = 0  # how many are entered now, and have ended

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *error: object) -> None:
        self.depth -= 1
        self.ended += 1


@dataclass(slots=True)
class _Progress:
    """What the main thread tells the watchdog's thread, and hears from it."""

    count: int = 0  # heartbeats
    stage: str = ""  # stage of the newest heartbeat
    failure: BaseException | None = None  # the error after which the main thread cleans up
    run: int = 0  # `InterruptGuard`s so far, the same on all ranks
    # One cell, the number of the last run that a signal asked this rank to stop; 0: none.
    asked: memoryview[int] = field(default_factory=lambda: memoryview(bytearray(8)).cast("q"))
    near: list[memoryview[int]] = field(default_factory=list)  # cells of the machine's other ranks, in shared memory
    others_asked: int = 0  # newest run that ranks without a cell were asked to stop; 0: none


progress, _waits, _writes = _Progress(), _Waiting(), _Waiting()


def heartbeat(stage: str) -> None:
    """Report progress of the main thread; takes 0.1 us.

    A process in `DDPContext` ends if it reports none for DING_LITE_TIMEOUT seconds. Call this in work of your own that
    takes longer, such as an upload in a callback. `stage` is what the main thread does, for messages; if it is empty,
    the detection of hangs ends until the next call.
    """
    progress.count += 1
    progress.stage = stage


def stop_requested() -> bool:
    """Return whether a signal asked a rank to end the current run, that of the newest `InterruptGuard`.

    Signals of this machine's ranks are seen at once, those of other machines within four seconds, by the watchdog.
    """
    for cell in (progress.asked, *progress.near):
        if cell[0] >= progress.run > 0:
            return True
    return progress.others_asked >= progress.run > 0


@contextmanager
def cleaning_up(error: BaseException | None) -> Iterator[None]:
    """Return a context manager for the clean-up after an error: if it blocks, the process tells the error and ends."""
    progress.failure = error
    try:
        yield
    finally:
        progress.failure = None


def waiting() -> _Waiting:
    """Return a context manager that marks a wait for other ranks; its end is progress, a hang in it not this rank's."""
    return _waits


def writing() -> _Waiting:
    """Return a context manager that marks the writing of a file; it counts as progress, however long the disk takes."""
    return _writes

"""What a run says and measures, as text that any tool reads, and for TensorBoard.

exp_dir/log/log.txt        what was said, with the time
exp_dir/metrics.jsonl      one JSON object per call of `scalars`
exp_dir/log/serial/        TensorBoard events, by env step or, where nothing is played, by iteration
exp_dir/result.json        how the run ended
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from ding_lite.utils.checkpoint.file import atomic_file
from ding_lite.utils.progress import console

COUNTS = ("envstep", "train_iter", "time")  # of a line in metrics.jsonl, beside its numbers
EVENTS_PERIOD = 10.0  # seconds between two flushes of the TensorBoard file, each of which waits for the disk


class ExperimentLogger(AbstractContextManager):
    """Files and terminal belong to rank 0; other ranks only warn, on stderr, each line naming the rank.

    A file that cannot be written (a full disk) is reported once, and training goes on.

    Args:
        exp_dir: where the files are written.
        rank: of this process.
        axis: which of the counts TensorBoard draws everything over, 'envstep' or 'train_iter'.
    """

    def __init__(self, exp_dir: str, rank: int = 0, axis: str = "envstep") -> None:
        self._exp_dir, self._rank, self._axis = exp_dir, rank, axis
        self._complained = False
        self._next_flush = 0.0  # of the events, in time.monotonic() seconds
        if rank == 0:
            events_dir = os.path.join(exp_dir, "log", "serial")
            os.makedirs(events_dir, exist_ok=True)
            self._text = open(os.path.join(exp_dir, "log", "log.txt"), "ab")  # noqa: SIM115 closed by close()
            self._metrics = open(os.path.join(exp_dir, "metrics.jsonl"), "ab")  # noqa: SIM115
            # not tensorboardX.SummaryWriter: its thread dies on a full disk, and every later call then blocks
            self._events: EventsWriter | None = EventsWriter(os.path.join(events_dir, "events"), f".{os.getpid()}")

    def info(self, message: str) -> None:
        """Say something on the terminal and in log.txt; silent on other ranks."""
        if self._rank == 0:
            self._say(message, "INFO")

    def warning(self, message: str) -> None:
        """Say something that the user should act on; on other ranks to stderr only."""
        if self._rank == 0:
            self._say(message, "WARNING")
        else:
            console("\n".join(f"[rank {self._rank}] WARNING {line}" for line in message.splitlines()))

    def scalars(self, values: dict[str, Any], envstep: int, train_iter: int) -> None:
        """Record numbers (0-d tensors too: this is where the device is waited for) at global counts of steps.

        A value that is not finite is `null` in metrics.jsonl and left out of TensorBoard.
        """
        if self._rank != 0:
            return
        now = round(time.time(), 3)
        record = {"envstep": envstep, "train_iter": train_iter, "time": now, **_plain(values)}
        with self._tolerant():
            self._metrics.write(json.dumps(record).encode() + b"\n")
            self._metrics.flush()
        self._write_points(record)

    def position(self) -> int:
        """Return the length of metrics.jsonl in bytes, once all that was recorded is on the disk; 0 on other ranks."""
        length = 0
        if self._rank == 0:
            with self._tolerant():
                os.fsync(self._metrics.fileno())
                length = self._metrics.tell()
            with self._tolerant():
                self._next_flush = 0.0
                self._write_event(None)
        return length

    def resume(self, position: int, step: int) -> None:
        """Forget what was recorded after a checkpoint that the run goes on from.

        Args:
            position: what `position` returned then; metrics.jsonl is cut there.
            step: its env step or iteration, as `axis` says; TensorBoard drops what it has from there on.
        """
        if self._rank == 0:
            with suppress(OSError):  # it told how the run ended that this one goes on from
                os.remove(os.path.join(self._exp_dir, "result.json"))
            with self._tolerant():
                if position < self._metrics.tell():
                    self._metrics.truncate(position)
            start = SessionLog(status=SessionLog.START)
            with self._tolerant():
                self._write_event(Event(wall_time=time.time(), step=step, session_log=start))
            with self._tolerant(), suppress(ValueError, TypeError, KeyError), open(self._metrics.name, "rb") as file:
                for record in map(json.loads, file):  # what belongs to the checkpoint's own step was dropped too
                    if record[self._axis] >= step:
                        self._write_points(record)

    def write_result(self, result: dict[str, Any]) -> None:
        """Write result.json, all or nothing."""
        if self._rank == 0:
            with self._tolerant(), atomic_file(os.path.join(self._exp_dir, "result.json")) as file:
                file.write(json.dumps(_plain(result), indent=2).encode() + b"\n")

    def close(self) -> None:
        """Flush and close the files."""
        for file in (self._text, self._metrics, self._events) if self._rank == 0 else ():
            with self._tolerant():
                if file is not None:
                    file.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _say(self, message: str, level: str) -> None:
        console(message if level == "INFO" else f"{level} {message}")
        with self._tolerant():
            self._text.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {level} {message}\n".encode())
            self._text.flush()

    def _write_points(self, record: dict[str, Any]) -> None:
        """Write a line of metrics.jsonl to TensorBoard."""
        numbers = {tag: number for tag, number in record.items() if tag not in COUNTS and number is not None}
        points = [Summary.Value(tag=tag, simple_value=number) for tag, number in numbers.items()]
        with self._tolerant():
            self._write_event(Event(wall_time=record["time"], step=record[self._axis], summary=Summary(value=points)))

    def _write_event(self, event: Event | None) -> None:
        """Write an event, if there is one, and flush if it is time to."""
        if self._events is None:
            return
        try:
            if event is not None:
                self._events.write_event(event)
            if time.monotonic() >= self._next_flush:
                self._events.flush()
                self._next_flush = time.monotonic() + EVENTS_PERIOD
        except OSError:
            self._events = None  # half an event is on disk: TensorBoard reads no further than that
            raise

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._complained:
                self._complained = True
                console(f"WARNING cannot write below '{self._exp_dir}': {error.strerror}; training goes on unrecorded.")


def _plain(value: Any) -> Any:
    """Make of tensors and arrays plain numbers and lists, and of numbers that JSON does not have None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value

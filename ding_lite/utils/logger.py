"""Writes the messages and figures of a run, as text that any tool can read, and for TensorBoard.

exp_dir/log/log.txt        terminal output, with times
exp_dir/metrics.jsonl      one JSON object for each call of `scalars`
exp_dir/log/serial/        TensorBoard events by env steps, or by learner iterations if nothing is played
exp_dir/result.json        how the run ended

`Progress` shows a line on a terminal and in a notebook, and else prints a plain line every 30 seconds.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tqdm import tqdm

from ding_lite.utils.checkpoint.file import atomic_file
from ding_lite.utils.directory_lock import METRICS, RESULT, RecordReader
from ding_lite.utils.disk import describe_os_error
from ding_lite.utils.printable import printable_lines, show
from ding_lite.utils.ranks.heartbeat import writing

COUNTS = ("envstep", "train_iter", "seconds", "time")  # keys of a line of metrics.jsonl that are not figures
EVENTS_PERIOD = 10.0  # seconds between two flushes of the TensorBoard file, because a flush waits for the disk
LINE_PERIOD = 30.0  # seconds between two plain lines


# The name of a run in a group of runs of this process, which shows their progress itself. On the terminal, the run's
# warnings begin with it, and nothing else appears. Empty: the run is alone.
label: ContextVar[str] = ContextVar("label", default="")


class ExperimentLogger(AbstractContextManager[Any]):
    """Writes the log files and the terminal output on rank 0. Other ranks print only warnings, with their number.

    The terminal output goes to stderr, where it does not disturb what a script prints, and also into a file that stdout
    is redirected into. The command line prints nothing else, so it sets `copies_to_pipes`: then a pipe, such as that of
    `| tee log.txt`, gets the output too; on a terminal, the pipe alone.

    If a file cannot be written, for instance because the disk is full, this is reported once and training continues.

    `axis` is the count on TensorBoard's horizontal axis, 'envstep' or 'train_iter'.
    """

    copies_to_pipes = False

    def __init__(self, exp_dir: str, rank: int = 0, axis: str = "envstep") -> None:
        self._exp_dir, self._rank, self._axis = exp_dir, rank, axis
        self._result = os.path.abspath(os.path.join(exp_dir, RESULT))  # the current directory may change
        self._complained = False
        self._copies, is_pipe = _stdout_is_elsewhere() if rank == 0 else (False, False)
        self._copies = self._copies and (self.copies_to_pipes or not is_pipe)
        self._tells_pipe_alone = self._copies and is_pipe and sys.stderr.isatty()
        self._next_flush = 0.0  # when to flush the events, in seconds of time.monotonic()
        if rank == 0:
            events_dir = os.path.join(exp_dir, "log", "serial")
            os.makedirs(events_dir, exist_ok=True)
            self._text = open(os.path.join(exp_dir, "log", "log.txt"), "ab")  # noqa: SIM115 closed by close()
            self._metrics = open(os.path.join(exp_dir, METRICS), "ab")  # noqa: SIM115
            # not SummaryWriter: its thread dies if the disk is full, and then every call blocks
            self._events: EventsWriter | None = EventsWriter(os.path.join(events_dir, "events"), f".{os.getpid()}")

    def info(self, message: str) -> None:
        """Write a message to the terminal and to log.txt, on rank 0 only."""
        if self._rank == 0:
            self._say(message, "INFO")

    def warning(self, message: str) -> None:
        """Write a message that the user should act on; ranks other than 0 write it only to stderr."""
        if self._rank == 0:
            self._say(message, "WARNING")
        else:
            console("\n".join(f"[rank {self._rank}] WARNING {line}" for line in message.splitlines()))

    def scalars(self, values: dict[str, Any], envstep: int, train_iter: int, seconds: float) -> None:
        """Record figures in metrics.jsonl and TensorBoard, on rank 0 only.

        Args:
            values: numbers or 0-d tensors by name, whose reading waits for their device. One that is not finite becomes
                `null` in metrics.jsonl and is left out of TensorBoard.
            envstep: env steps of all ranks so far.
            train_iter: learner iterations so far.
            seconds: of the run so far, without those while it was stopped.
        """
        if self._rank != 0:
            return
        record = {"envstep": envstep, "train_iter": train_iter, "seconds": round(seconds, 3)}
        record |= {"time": round(time.time(), 3), **_plain(values)}
        with self._tolerant():
            self._metrics.write(json.dumps(record).encode() + b"\n")
            self._metrics.flush()
        self._write_points(record)

    def position(self) -> int:
        """Flush the figures to disk and return the length of metrics.jsonl in bytes; 0 on ranks other than 0."""
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
        """Remove what was recorded after the checkpoint from which the run continues.

        metrics.jsonl is cut at what `position` returned then. TensorBoard drops everything from the count `step` on.
        """
        if self._rank == 0:
            with self._tolerant():
                if position < self._metrics.tell():
                    self._metrics.truncate(position)
                    self._metrics.seek(0, os.SEEK_END)  # `position` of a checkpoint without new figures must be the end
            start = SessionLog(status=SessionLog.START)
            with self._tolerant():
                self._write_event(Event(wall_time=time.time(), step=step, session_log=start))
            with self._tolerant(), suppress(TypeError, KeyError):
                for record in RecordReader(self._metrics.name).read():  # TensorBoard drops the checkpoint's own step
                    if record[self._axis] >= step:
                        self._write_points(record)

    def write_result(self, result: dict[str, Any]) -> None:
        """Write result.json atomically, on rank 0 only."""
        if self._rank == 0:
            with self._tolerant(), atomic_file(self._result) as file:
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
        message = printable_lines(message)
        line, shown = message if level == "INFO" else f"{level} {message}", True
        if name := label.get():
            line, shown = f"{name}: {line}", level != "INFO"
        if shown and not self._tells_pipe_alone:
            console(line)
        if shown and self._copies:
            with self._tolerant():
                show(line)
        with self._tolerant():
            self._text.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {level} {message}\n".encode())
            self._text.flush()

    def _write_points(self, record: dict[str, Any]) -> None:
        """Write the figures of a line of metrics.jsonl to TensorBoard."""
        numbers = {tag: number for tag, number in record.items() if tag not in COUNTS and number is not None}
        points = [Summary.Value(tag=tag, simple_value=number) for tag, number in numbers.items()]
        with self._tolerant():
            self._write_event(Event(wall_time=record["time"], step=record[self._axis], summary=Summary(value=points)))

    def _write_event(self, event: Event | None) -> None:
        """Write an event, unless it is None, and flush the file if `EVENTS_PERIOD` has passed."""
        if self._events is None:
            return
        try:
            if event is not None:
                self._events.write_event(event)
            if time.monotonic() >= self._next_flush:
                self._events.flush()
                self._next_flush = time.monotonic() + EVENTS_PERIOD
        except OSError:
            # The file ends with half an event, and TensorBoard cannot read past it. EventsWriter.close() would fail
            # again before it closes the file, and Python 3.13 prints an error for a file that it cannot flush.
            events, self._events = self._events, None
            with suppress(OSError):
                events._py_recordio_writer.close()
            raise

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        try:
            with writing():
                yield
        except OSError as error:
            if not self._complained:
                self._complained = True
                reason = describe_os_error(error)
                console(f"WARNING cannot write to '{self._exp_dir}': {reason}; training continues unrecorded.")


def _stdout_is_elsewhere() -> tuple[bool, bool]:
    """Return whether stdout goes into a file or a pipe into which stderr does not go too, and whether it is a pipe."""
    try:
        out, error = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):  # closed, or replaced by an object
        return False, False
    is_pipe = stat.S_ISFIFO(out.st_mode)
    return (is_pipe or stat.S_ISREG(out.st_mode)) and not os.path.samestat(out, error), is_pipe


def _plain(value: Any) -> Any:
    """Convert tensors and arrays to numbers and lists, and numbers that JSON cannot express (NaN, infinity) to None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Bar(tqdm):  # type: ignore[type-arg]  # generic in its stubs only
    monitor_interval = 0  # no refresher thread, because the loop reports often


def console(line: str) -> None:
    """Print a line to stderr, above the progress line if there is one. A closed terminal is not an error.

    Characters that a terminal would obey, such as those of a directory's name, are escaped.
    """
    if sys.stderr is None:  # closed by the caller; tqdm would take stdout
        return
    with suppress(OSError, ValueError):  # one write, because other ranks use the same terminal
        tqdm.write(f"{printable_lines(line)}\n", file=sys.stderr, end="")
        sys.stderr.flush()


class Progress(AbstractContextManager[Any]):
    """Shows the number of steps done, their rate per second, the time left and returns.

    The rate is that of the last steps. The time left follows from all steps since learning began, which makes them
    slower; with the last steps alone, it would jump after every evaluation.

    Args:
        total: steps of all ranks after which the run ends; None if it is unknown.
        enabled: whether to show anything; False on all ranks except 0.
        log: prints the plain lines if stderr is not a terminal.
        start: steps that a resumed run had done before; they do not count towards the rate.
        words: the names of the steps, and of the second count of a plain line.
        expected: steps after which the run is likely to end; they stand for `total` until there are more.

    Attributes:
        learns: whether learning has begun; steps before are faster.
    """

    def __init__(
        self,
        total: int | None,
        enabled: bool,
        log: Callable[[str], None] = console,
        start: int = 0,
        words: tuple[str, str] = ("step", "iteration"),
        expected: int | None = None,
    ) -> None:
        unit, self._beside = words
        # without tqdm's drawn bar, so that the line fits 80 columns; `desc` holds the time left and the returns
        layout = f"{unit} {{n_fmt}}{'/{total_fmt}' * bool(total or expected)} | {{rate_noinv_fmt}} | {{desc}}"
        self._options: dict[str, Any] = {"bar_format": layout, "unit": "", "unit_scale": True, "initial": start}
        self._total, self._expected, self._log = total, expected, log
        self._enabled, self._bar = enabled and not label.get(), None
        self._began = self._last_line = (time.monotonic(), start)  # (time, steps)
        self.learns = False
        self._last_note = time.monotonic()
        out = sys.stderr  # a line can be written again in a terminal, and below the cell of a notebook
        if self._enabled and out is not None and (out.isatty() or type(out).__module__.startswith("ipykernel.")):
            text = self._text(start, _describe({}))
            self._bar = _Bar(total=self._goal(start), dynamic_ncols=True, smoothing=0.05, desc=text, **self._options)

    def update(self, step: int, beside: int, returns: Mapping[str, float | None] | None = None) -> None:
        """Report the counts so far, of all ranks; `beside` is 0 before learning begins.

        `returns` are mean returns by the names to show before them; None: not known yet.
        """
        if beside and not self.learns:
            self.learns, self._began = True, (time.monotonic(), step)
        if self._bar is not None:
            self._bar.desc = self._text(step, _describe(returns or {}))
            self._bar.total = self._goal(step)
            self._bar.update(step - self._bar.n)
        elif self._enabled and time.monotonic() - self._last_line[0] >= LINE_PERIOD:
            now, (then, before) = time.monotonic(), self._last_line
            self._last_line = (now, step)
            total: Any = self._goal(step)  # None is fine too, whatever tqdm's types say
            rate = (step - before) / max(now - then, 1e-9)
            text: Any = self._text(step, _describe(returns or {}))
            line = tqdm.format_meter(step, total, now - then, rate=rate, prefix=text, **self._options)
            self._log(f"{line} | {self._beside} {beside}")

    def note(self, text: str) -> None:
        """Show text in place of the returns until the next `update`, for instance during an evaluation."""
        if self._bar is not None:
            self._bar.desc = self._text(int(self._bar.n), text)
            self._bar.refresh()
        elif self._enabled and time.monotonic() - max(self._last_note, self._last_line[0]) >= LINE_PERIOD:
            self._last_note = time.monotonic()
            self._log(text)

    def _goal(self, step: int) -> int | None:
        """Return the step to which time is counted, not below `step`, because tqdm drops a total that was overshot."""
        goal = self._expected if self._expected and step < self._expected else self._total
        return goal and max(goal, step)

    def _text(self, step: int, text: str) -> str:
        """Return a text after the time left at the mean rate so far, if it is known what ends the run."""
        goal, (seconds, steps) = self._goal(step), self.pace(step)
        if not goal:
            return text
        left = tqdm.format_interval(max((goal - step) * seconds / steps, 0.0)) if steps > 0 else "?"
        return f"left {left} | {text}"

    def pace(self, step: int) -> tuple[float, int]:
        """Return the seconds and the steps since learning began, or before it, since the start."""
        then, before = self._began
        return time.monotonic() - then, step - before

    def close(self) -> None:
        """End the display; its last state stays on the screen."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __exit__(self, *error: object) -> None:
        self.close()


def _describe(returns: Mapping[str, float | None]) -> str:
    """Return "return -20.1 eval -20.6 best -20.1", without decimals from 1,000 on."""
    shown = {
        name: f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}"
        for name, value in returns.items()
        if value is not None
    }
    return " ".join(f"{name} {value}" for name, value in shown.items()) or "return -"

"""Starts and ends the process that records a run in a tracker's service.

It is a separate process, the follower (`follower.py`), so that nothing a service does can change, delay or end the
training: the service may draw random numbers, wait for a network, or fail.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import IO, Any

from ding_lite.utils.logger import COUNTS
from ding_lite.utils.registry import TRACKER_REGISTRY
from ding_lite.utils.tracker.follower import LATE
from ding_lite.utils.tracker.services import Job

MARGIN = 2.0  # seconds after `tracker.patience` in which the follower ends itself
AFTER_ERROR = 5.0  # seconds to wait for the follower if an error ended the run
WIDTH = 79  # characters of a line


class TrackerProcess(AbstractContextManager[Any]):
    """The follower of a run, on rank 0. Its failure is a single warning.

    Args:
        config: the compiled config, with the section `tracker`.
        exp_dir: the experiment directory, with the files of `ExperimentLogger`.
        axis: the count that is the step of a figure, 'envstep' or 'train_iter'.
        info: prints a message.
        warning: prints a message that the user should act on.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        exp_dir: str,
        axis: str,
        info: Callable[[str], None],
        warning: Callable[[str], None],
    ) -> None:
        self._info, self._warning = info, warning
        self._type, self._log = config["tracker"]["type"], os.path.join(exp_dir, "log", "tracker.txt")
        module = TRACKER_REGISTRY.find(self._type).__module__
        told = {key: value for key, value in config.items() if key != "notes"}
        job = Job(self._type, module, exp_dir, told, axis, list(COUNTS), os.getpid())
        self._patience = job.patience + MARGIN
        self._process: subprocess.Popen[bytes] | None = None  # None: tracking has ended
        self._said = b""  # the beginning of a message
        try:
            self._start(json.dumps(vars(job)).encode() + b"\n")
        except OSError as error:
            self._give_up(str(error))

    def _start(self, job: bytes) -> None:
        code = f"import sys; sys.path[:] = {sys.path!r}; from ding_lite.utils.tracker.follower import main; main()"
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],  # `-m` would put the current directory first on its path
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the run, and the follower ends when the run does
            )
        os.set_blocking(_stream(self._process.stdout).fileno(), False)
        _stream(self._process.stdin).write(job)
        _stream(self._process.stdin).flush()

    def poll(self) -> None:
        """Print what the follower has said, or that it has failed. Never waits."""
        if self._process is not None:
            status = self._process.poll()
            cause = self._pass_messages_on()
            if cause or status is not None:
                self._give_up(cause or f"Its process ended with status {status}.")

    def close(self, hurry: bool = False) -> None:
        """Tell the follower that the run has ended, and wait for it, for a short time if `hurry`; then kill it."""
        process = self._process
        if process is None:
            return
        _stream(process.stdin).close()
        try:
            status = process.wait(min(self._patience, AFTER_ERROR) if hurry else self._patience)
        except subprocess.TimeoutExpired:
            status = LATE
        except BaseException:  # Ctrl-C while waiting
            self._end()
            raise
        cause = self._pass_messages_on()
        if status == LATE:
            cause = "It has not sent the last figures within tracker.patience after the end of the run."
        if status:
            self._give_up(cause or f"Its process ended with status {status}.")
        self._end()

    def __exit__(self, kind: object, *error: object) -> None:
        self.close(hurry=kind is not None)

    def _pass_messages_on(self) -> str:
        """Print the follower's messages; return its error, if it has reported one."""
        assert self._process is not None
        *lines, self._said = (self._said + (_stream(self._process.stdout).read() or b"")).split(b"\n")
        error = ""
        for line in lines:
            with suppress(ValueError, TypeError):  # something that Python's start-up files have printed
                message = json.loads(line)
                if message["kind"] == "error":
                    error = message["text"]
                else:
                    self._info(message["text"])
        return error

    def _give_up(self, cause: str) -> None:
        self._end()
        why = textwrap.fill(cause, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        self._warning(
            f"tracker '{self._type}' has failed and is off; the run does not depend on it.\n{why}\n  See {self._log}."
        )

    def _end(self) -> None:
        """End the follower, and what it has started, if they run."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                _stream(stream).close()


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe of a process that was started with one."""
    assert stream is not None
    return stream

"""Starts the ranks of a job on this machine, and restarts them after a failure, with torch's elastic launcher.

The launcher runs in this process and prints one or two lines about a failure. It does not restart a run after a signal
or after a mistake of the user, which the ranks print.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import tempfile
import textwrap
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup, WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from ding_lite.utils.ranks.interrupt import SIGNALS
from ding_lite.utils.ranks.launch_environment import loopback, set_variables
from ding_lite.utils.ranks.meeting import host_store

USER_ERROR = 2  # the exit status of a rank that ends with a UserError
JOIN_TIMEOUT = 600  # seconds that a request to the launcher's store may take
SAVE_GRACE = 120  # seconds that ranks have after a signal before they are killed
FORWARDED = (*SIGNALS, signal.SIGHUP, signal.SIGQUIT)


def run_ranks(command: Sequence[str], nproc: int, max_restarts: int) -> int:
    """Run `nproc` processes of a command on this machine, print why they failed if they did, return the exit status.

    Ranks get their numbers in the environment variables that `read_launch` reads.

    Returns:
        The exit status: 0; 128 + N if signal N interrupted the run; 2 after a mistake of the user, 1 after a failure.
    """
    handlers = signal_handlers()
    try:
        with tempfile.TemporaryDirectory(prefix="ding_lite_") as folder:
            supervise(command, nproc, max_restarts, folder)
        return 0
    except ChildFailedError as error:
        rank, failure = first_failure(error.failures)
        signum = interrupted_by(failure)
        if not signum and not read_cause(failure).mistake:  # the rank itself has printed a mistake of the user
            _say(_describe(rank, failure))
        return 128 + signum if signum else USER_ERROR if failure.exitcode == USER_ERROR else 1
    except SignalException as error:
        handlers = {signal.SIGINT: handlers[signal.SIGINT]}  # later signals of other kinds have no effect
        return 128 + error.sigval
    finally:
        restore_handlers(handlers)


def supervise(command: Sequence[str], nproc: int, max_restarts: int, folder: str) -> None:
    """Start `nproc` processes of a command and wait for them to end. The caller has to restore the signal handlers.

    If one fails, all are ended, and restarted at most `max_restarts` times. Signals are passed on to the ranks; a
    Ctrl-C after the first signal kills them. Ranks write the causes of failures to `folder`.

    Raises:
        ChildFailedError: a rank failed, and there is no restart.
        SignalException: this process got a signal; the ranks have ended.
    """
    with _environment(nproc):
        program, *words = command
        spec = WorkerSpec(
            "rank", nproc, LocalRendezvous(), entrypoint=program, args=tuple(words), max_restarts=max_restarts
        )
        Agent(spec, DefaultLogsSpecs(folder)).run()


class LocalRendezvous(StaticTCPRendezvous):
    """The ranks of this machine and nobody else: its store listens on the loopback address, and holds no pickles."""

    def __init__(self) -> None:
        store = host_store(loopback(), 0, JOIN_TIMEOUT)
        super().__init__(store.host, store.port, 0, 1, uuid.uuid4().hex, JOIN_TIMEOUT)
        self._store = store


@contextmanager
def _environment(nproc: int) -> Iterator[None]:
    """Return a context manager that sets the variables of torch's launcher and the ranks, and silences torch's log."""
    variables = {"TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(_forwarded())}
    if nproc > 1 and "OMP_NUM_THREADS" not in os.environ:
        variables["OMP_NUM_THREADS"] = "1"  # as torchrun does: the ranks would compete for the cores
    log, silent = logging.getLogger("torch.distributed.elastic"), logging.NullHandler()
    propagate = log.propagate
    if "LOGLEVEL" not in os.environ:  # torch's switch
        log.addHandler(silent)
        log.propagate = False
    try:
        with set_variables(variables):
            yield
    finally:
        log.removeHandler(silent)
        log.propagate = propagate


def _forwarded() -> list[str]:
    """Return the signals to pass on. A script ignores SIGINT for its background jobs, but runs handle it all the same.

    nohup ignores SIGHUP, and that is respected.
    """
    return [n.name for n in FORWARDED if n in SIGNALS or signal.getsignal(n) != signal.SIG_IGN]


def signal_handlers() -> dict[signal.Signals, Any]:
    """Return this process's handlers of the signals that `supervise` passes on; empty outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in FORWARDED}


def restore_handlers(handlers: dict[signal.Signals, Any]) -> None:
    """Restore the handlers that `signal_handlers` returned."""
    for number, handler in handlers.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not installed from python


class Agent(LocalElasticAgent):
    """torch's agent, which starts and monitors the ranks, with our rules for restarting and killing."""

    _restarts = 0
    _signalled = False

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """Check the ranks; raise `ChildFailedError` if one has failed and must not be restarted."""
        result = super()._monitor_workers(worker_group)
        if result.is_failed():
            rank, failure = first_failure(result.failures)
            allowed = worker_group.spec.max_restarts
            if self._restarts == allowed or failure.exitcode == USER_ERROR or interrupted_by(failure):
                raise ChildFailedError("ding_lite", result.failures)
            self._restarts += 1
            _say(f"{_describe(rank, failure)} All ranks start again, restart {self._restarts} of {allowed}.")
        return result

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 0, **options: Any) -> None:
        """Pass a signal on and wait for the ranks to end; torch calls this again if another signal arrives."""
        if isinstance(sys.exception(), SignalException):
            if self._signalled:
                death_sig = signal.SIGKILL
            self._signalled = True
            for number in set(FORWARDED) - {signal.SIGINT}:  # a scheduler may send several; only Ctrl-C kills at once
                signal.signal(number, signal.SIG_IGN)
        if self._pcontext:  # here, because an agent of torch before 2.13 takes no time-out
            self._pcontext.close(death_sig, max(timeout, SAVE_GRACE))
        super()._shutdown(death_sig, **options)


def first_failure(failures: dict[int, ProcessFailure]) -> tuple[int, ProcessFailure]:
    """Return the global rank and the failure of the rank that failed first, not of those that ended because of it.

    Several ranks may have ended when torch checks, and it records whole seconds. A rank that left a message or was
    killed precedes one that only ended. Ranks that report the loss of another, and ranks that torch ended, come last.
    """

    def order(item: tuple[int, ProcessFailure]) -> tuple[bool, bool, int]:
        failure, left = item[1], read_cause(item[1])
        second_hand = failure.exitcode == -signal.SIGTERM or left.lost_peer
        return second_hand, failure.exitcode > 0 and not left.message, failure.timestamp

    return min(failures.items(), key=order)


class Cause(NamedTuple):
    """The content of a rank's error file, see `record_cause`; all fields are empty if there is none.

    Attributes:
        message: the cause, in one line.
        traceback: of the exception that ended it.
        mistake: the message of the `UserError` that ended it.
        lost_peer: the rank ended because it had lost another one.
    """

    message: str = ""
    traceback: str = ""
    mistake: str = ""
    lost_peer: bool = False


def read_cause(failure: ProcessFailure) -> Cause:
    """Return the content of the failed rank's error file."""
    told = failure.error_file_data["message"]
    if not isinstance(told, dict):  # torch's own message if there is no file
        return Cause()
    more = {key: value for key, value in told["extraInfo"].items() if key in Cause._fields}
    return Cause(" ".join(told["message"].split()), **more)


def interrupted_by(failure: ProcessFailure) -> int:
    """Return the signal after which the rank saved and ended, 0 if it failed."""
    signum = failure.exitcode - 128
    return signum if signum in SIGNALS else 0


def describe_end(rank: int, failure: ProcessFailure) -> str:
    """Return which rank failed and how its process ended, but not why; without a full stop."""
    code = failure.exitcode
    end = f"was killed by {failure.signal_name()}" if code < 0 else f"ended with status {code}"
    return f"Rank {rank} on {socket.gethostname()} (pid {failure.pid}) {end}"


def _describe(rank: int, failure: ProcessFailure) -> str:
    message = read_cause(failure).message
    return describe_end(rank, failure) + (f": {message}" if message else ".")


def _say(text: str) -> None:
    sys.stderr.write(textwrap.fill(f"ding_lite: {text}", 80, subsequent_indent="  ", break_long_words=False) + "\n")
    sys.stderr.flush()

"""Starting the ranks of a job on this machine, and starting them again when one fails: torch's elastic launcher.

It runs in this process, says in one or two lines what happened, and knows two ends that a restart would not mend: a
run that a signal interrupted, and a mistake of the user.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import tempfile
import textwrap
import uuid
from collections.abc import Sequence

from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup, WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

from ding_lite.utils.interrupt import SIGNALS

USER_ERROR = 2  # the exit status of a rank that ends with a UserError
SAVE_GRACE = 120  # seconds that ranks get after a signal, until they are killed
FORWARDED = (*SIGNALS, signal.SIGHUP, signal.SIGQUIT)


def run_ranks(command: Sequence[str], nproc: int, max_restarts: int) -> int:
    """Run `nproc` processes of a command on this machine and wait for their end.

    When one fails, all are ended, and started again at most `max_restarts` times. Signals are passed on to the ranks; a
    Ctrl-C after the first signal kills them. Ranks find who they are in the variables that `read_launch` reads.

    Returns:
        The exit status: 0; 128 + N if signal N interrupted the run; 2 after a mistake of the user, 1 after a failure.
    """
    log = logging.getLogger("torch.distributed.elastic")
    if "LOGLEVEL" not in os.environ:  # torch's switch; our own lines say what its log would
        log.addHandler(logging.NullHandler())
        log.propagate = False
    if nproc > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does: the ranks would compete for the cores
    handlers = {number: signal.getsignal(number) for number in FORWARDED}
    forwarded = [number.name for number, handler in handlers.items() if handler != signal.SIG_IGN]  # nohup's is
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = ",".join(forwarded)
    here = "127.0.0.1"
    rendezvous = get_rendezvous_handler(
        RendezvousParameters("c10d", "localhost:0", uuid.uuid4().hex, 1, 1, local_addr=here)
    )
    program, *words = command
    spec = WorkerSpec(
        "rank", nproc, rendezvous, entrypoint=program, args=tuple(words), max_restarts=max_restarts, local_addr=here
    )
    try:
        with tempfile.TemporaryDirectory(prefix="ding_lite_") as folder:  # where ranks leave why they failed
            Agent(spec, DefaultLogsSpecs(folder), shutdown_timeout=SAVE_GRACE).run()
        return 0
    except ChildFailedError as error:
        rank, failure = _first(error.failures)
        signum = _interrupted_by(failure)
        if not signum:
            _say(_describe(rank, failure))
        return 128 + signum if signum else USER_ERROR if failure.exitcode == USER_ERROR else 1
    except SignalException as error:
        handlers = {signal.SIGINT: handlers[signal.SIGINT]}  # of the others, one that comes late changes nothing
        return 128 + error.sigval
    finally:
        rendezvous.shutdown()
        for number, handler in handlers.items():
            signal.signal(number, handler)


class Agent(LocalElasticAgent):
    """Torch's agent, which starts and watches the ranks, with our rules of when to restart and when to kill."""

    _restarts = 0
    _signalled = False

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """Look at the ranks; raise `ChildFailedError` if one failed and there is, or should be, no restart."""
        result = super()._monitor_workers(worker_group)
        if result.is_failed():
            rank, failure = _first(result.failures)
            allowed = worker_group.spec.max_restarts
            if self._restarts == allowed or failure.exitcode == USER_ERROR or _interrupted_by(failure):
                raise ChildFailedError("ding_lite", result.failures)
            self._restarts += 1
            _say(f"{_describe(rank, failure)} All ranks start again, restart {self._restarts} of {allowed}.")
        return result

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = SAVE_GRACE) -> None:
        """Pass a signal on and wait for the ranks' end; torch calls this again if another signal arrives meanwhile."""
        if isinstance(sys.exception(), SignalException):
            if self._signalled:
                death_sig = signal.SIGKILL
            self._signalled = True
            for number in set(FORWARDED) - {signal.SIGINT}:  # a scheduler sends several, only Ctrl-C means at once
                signal.signal(number, signal.SIG_IGN)
        super()._shutdown(death_sig, timeout)


def _first(failures: dict[int, ProcessFailure]) -> tuple[int, ProcessFailure]:
    """Return global rank and failure of the rank that failed by itself, not of those that lost it then.

    Several may be gone when torch looks, and it notes whole seconds. One that left a message or was killed comes before
    one that just ended; those that say that they lost another, and those that torch itself ended, come last.
    """

    def order(item: tuple[int, ProcessFailure]) -> tuple[bool, bool, int]:
        failure = item[1]
        message = _message(failure)
        second_hand = failure.exitcode == -signal.SIGTERM or message.startswith("lost another rank")
        return second_hand, failure.exitcode > 0 and not message, failure.timestamp

    return min(failures.items(), key=order)


def _message(failure: ProcessFailure) -> str:
    """Return what the rank left in its error file, on one line."""
    told = failure.error_file_data["message"]
    return " ".join(told["message"].split()) if isinstance(told, dict) else ""


def _interrupted_by(failure: ProcessFailure) -> int:
    """Return the signal after which the rank saved and ended, 0 if it failed."""
    signum = failure.exitcode - 128
    return signum if signum in SIGNALS else 0


def _describe(rank: int, failure: ProcessFailure) -> str:
    code, message = failure.exitcode, _message(failure)
    end = f"was killed by {failure.signal_name()}" if code < 0 else f"ended with status {code}"
    return f"Rank {rank} on {socket.gethostname()} (pid {failure.pid}) {end}" + (f": {message}" if message else ".")


def _say(text: str) -> None:
    sys.stderr.write(textwrap.fill(f"ding_lite: {text}", 80, subsequent_indent="  ", break_long_words=False) + "\n")
    sys.stderr.flush()

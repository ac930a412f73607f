"""Joining the process group that a launcher describes, and leaving it, even after an error.

Without a launcher, or with one process, there is no group.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import re
import signal
import sys
import textwrap
import threading
import traceback
from contextlib import ExitStack, suppress
from datetime import timedelta

import torch
import torch.distributed as dist

# Its default arguments hold the group that exists when it is imported; creating an optimizer imports it. If that
# happened after the group is made, destroy_process_group() would not free the group, and the interpreter could abort at
# its exit.
import torch.distributed.nn.functional

from ding_lite.utils.ranks.collectives import get_rank, get_world_size
from ding_lite.utils.ranks.heartbeat import waiting
from ding_lite.utils.ranks.interrupt import INTERRUPTED, ends_at_interrupt
from ding_lite.utils.ranks.launch_environment import (
    Launch,
    allow_descriptors,
    end_launcher,
    is_loopback,
    read_launch,
    read_seconds,
    record_cause,
    set_variables,
)
from ding_lite.utils.ranks.machine_group import leave_machine_group, watch_machine_group
from ding_lite.utils.ranks.meeting import (
    Meeting,
    SignedStore,
    check_versions,
    choose_backend,
    find_meeting_place,
    launcher_hosts_store,
    loopback_interface,
    meet,
    show_place,
)
from ding_lite.utils.ranks.watchdog import LAST_WORD, Watchdog, first_reports
from ding_lite.utils.registry import UserError

EXIT_GRACE = 5.0  # seconds that a failed rank gets to clean up before it is ended
# The watchdog ends a rank that waits in vain. torch does not know which ranks make progress: its own limit, for
# collectives that the user's code calls, is longer.
TORCH_TIMEOUT = timedelta(days=1)
INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")  # the network interfaces of gloo and of rpc


class DDPContext:
    """Joins the process group that the launcher describes, and leaves it at the end of the block.

    CPU tensors are sent over gloo, CUDA tensors over nccl if every rank has a GPU of its own, else over gloo too. A
    group that already exists is used, and left as it is; all its ranks enter the context. A single process joins no
    group.

    An exception inside the block ends the process:

    * a `UserError` with status 2. Only its message is printed, and only by rank 0 if all ranks make the same mistake.
    * Ctrl-C, if nothing handles it, with status 130 and one line.
    * with several ranks, any other exception with status 1. The traceback is printed with the rank before every line.
      If a collective failed because another rank was lost, one line names that rank instead.

    Cleaning up takes at most `EXIT_GRACE` seconds, even if a collective is pending. A rank that dies or hangs ends the
    job, see `watchdog`.

    Args:
        timeout: the most seconds that joining the group, or the time between two calls of `heartbeat`, may take. A
            rank waits for the others as long as one of them makes progress; in a group that existed before and whose
            store is no `TCPStore`, it waits no longer than this. None: the environment variable DING_LITE_TIMEOUT,
            else 600.
        report: print what ends the process. If False, only the error file that the launcher reads contains it.

    Raises:
        SystemExit: with one line, if a time-out is not a number, the environment variables contradict each other, or
            the ranks do not meet.
    """

    _watched = False  # whether this process has a watchdog

    def __init__(self, timeout: float | None = None, report: bool = True) -> None:
        self.timeout = read_seconds("DING_LITE_TIMEOUT", "600", timeout)
        self._dead_timeout = read_seconds("DING_LITE_DEAD_TIMEOUT", "15")
        self._owner, self._report = False, report
        self._watchdog: Watchdog | None = None
        self._variables = ExitStack()  # sets environment variables for torch

    def __enter__(self) -> DDPContext:
        joined = dist.is_initialized()
        launch = None if joined else read_launch()
        if launch is None:  # without a store that others reach, only this rank is watched
            alone = not joined or DDPContext._watched or get_world_size() == 1
            place = None if alone else find_meeting_place(self.timeout)
            self._watch(place and meet(place, self.timeout, first_reports(place.world_size)))
            return self
        if torch.cuda.is_available():
            torch.cuda.set_device(launch.local_rank % torch.cuda.device_count())
        variables = {"MASTER_ADDR": launch.addr, "MASTER_PORT": str(launch.port)}
        if is_loopback(launch.addr):
            for name in INTERFACES:
                variables[name] = os.environ.get(name, loopback_interface())
        with ExitStack() as stack:
            stack.enter_context(set_variables(variables))
            self._join_or_exit(launch)
            self._variables = stack.pop_all()
        self._owner = True
        return self

    def _join_or_exit(self, launch: Launch) -> None:
        """Join the process group; if that fails, end with one line."""
        try:
            with ends_at_interrupt():
                self._join(launch)
        except UserError as error:
            record_cause(_describe(error), mistake=str(error))
            if launch.rank == 0 and self._report:
                print(error, file=sys.stderr)
            end_launcher()
            raise SystemExit(2) from None
        except (RuntimeError, ValueError) as error:
            cause = (str(error).splitlines() or [type(error).__name__])[0]
            when = f" within {self.timeout:g} s" if "did not come" in cause else ""  # else the store was lost
            why = f"the {launch.world_size} ranks did not meet at {show_place(launch)}{when}"
            advice = "Check that each was started with the same MASTER_ADDR and MASTER_PORT and that none has died"
            if "EADDRINUSE" in str(error):
                why, advice = f"port {launch.port} is in use", "Choose another MASTER_PORT (--master_port)"
            raise SystemExit(f"[rank {launch.rank}] {why}. {advice}. ({cause})") from None

    def _join(self, launch: Launch) -> None:
        """Meet the other ranks, watch them, and form the process group."""
        by_launcher = launcher_hosts_store()
        allow_descriptors(launch.world_size, launch.rank == 0 and not by_launcher, launch.rank == 0 and by_launcher)
        meeting = meet(launch, self.timeout, first_reports(launch.world_size))
        check_versions(meeting.peers)
        backend, why = choose_backend(meeting.peers)
        if why and launch.rank == 0:
            print(f"Ranks exchange tensors of GPUs with gloo, which is slower than nccl: {why}.", file=sys.stderr)
        self._watch(meeting)
        # nccl's own threads ask the store too, also while another thread that has the interpreter waits for them.
        plain = dist.PrefixStore(f"{meeting.key}/group", meeting.store)
        self._store = SignedStore(plain, meeting.signer) if backend == "gloo" else plain
        with waiting():
            dist.init_process_group(backend, None, TORCH_TIMEOUT, launch.world_size, launch.rank, self._store)

    def _watch(self, meeting: Meeting | None) -> None:
        """Start the watchdog; inside another context, the outer one's watchdog is used."""
        if not DDPContext._watched:
            self._watchdog = Watchdog(self.timeout, self._dead_timeout, meeting)
            lost, signer = (self._watchdog.lost_others, meeting.signer) if meeting else (None, None)
            watch_machine_group(self.timeout, lost, signer)
            self._watchdog.start()
            DDPContext._watched = True

    def _unwatch(self, status: int = 0, cause: str = "", alike: bool = False) -> None:
        if self._watchdog:
            self._watchdog.stop(status, cause, alike)
            self._watchdog, DDPContext._watched = None, False
            watch_machine_group(None)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        cause = _describe(error)
        if not self._owner:
            self._leave_no_group(error, cause)
            return
        self._owner = False
        self._variables.close()
        leave_machine_group()
        if not cause:
            self._unwatch()
            dist.destroy_process_group()
            return
        with suppress(ValueError):  # no main thread
            # A launcher that saw another rank fail sends it; first say why.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        lost = self._watchdog.explain() if self._watchdog and _is_of_a_collective(error) else ""
        # Leaving may wait for the peers of a pending collective. A C thread, which needs no GIL, is the last resort.
        self._null = open(os.devnull, "w")  # noqa: SIM115 (must stay open until the process has ended)
        faulthandler.dump_traceback_later(EXIT_GRACE + LAST_WORD, exit=True, file=self._null)
        status, mistake = _status(error), str(error) if isinstance(error, UserError) else ""
        text = f"{mistake}\n" if mistake and not lost else ""
        if not lost and not isinstance(error, KeyboardInterrupt | SystemExit | UserError):
            text = "".join(traceback.format_exception(error))
        first = self._watchdog.first_mistake(mistake) if self._watchdog and mistake else ""
        shown = f"{INTERRUPTED}\n" if isinstance(error, KeyboardInterrupt) else text
        printed_by_rank_0 = shown in (f"{INTERRUPTED}\n", f"{first}\n")
        if self._report and (get_rank() == 0 or not printed_by_rank_0):
            prefix = "" if shown.startswith("[rank ") else f"[rank {get_rank()}] "  # `on_every_rank` names it
            sys.stderr.write(textwrap.indent(shown, prefix))
            sys.stderr.flush()
        record_cause(f"lost another rank: {lost}" if lost else cause, None, text, mistake, bool(lost))
        self._unwatch(status, "" if lost or not isinstance(error, Exception) else cause, alike=bool(first))
        if mistake:
            end_launcher()
        atexit.register(_end_process, status)
        leaving = threading.Thread(target=dist.destroy_process_group, daemon=True)
        leaving.start()
        leaving.join(EXIT_GRACE / 5)
        if not isinstance(error, SystemExit):
            raise SystemExit(status) from None

    def _leave_no_group(self, error: BaseException | None, cause: str) -> None:
        """Leave the block if it joined no group: one process, or a group that existed before."""
        mistake = str(error) if isinstance(error, UserError) else ""
        if cause and self._watchdog:
            record_cause(cause, None, "".join(traceback.format_exception(error)), mistake)
        own = isinstance(error, Exception) and not _is_of_a_collective(error)
        self._unwatch(int(bool(cause)), cause if own else "")
        if isinstance(error, KeyboardInterrupt | UserError) and get_world_size() == 1:
            if self._report:
                print(mistake or INTERRUPTED, file=sys.stderr)
            if mistake:
                end_launcher()
            raise SystemExit(_status(error)) from None


def _describe(error: BaseException | None) -> str:
    """Return an exception as one line; empty for an exit with status 0."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return ""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _status(error: BaseException | None) -> int:
    """Return the exit status after an exception."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    return 2 if isinstance(error, UserError) else 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _is_of_a_collective(error: BaseException | None) -> bool:
    """Return whether a collective raised the error, or an error that caused it."""
    while error is not None:
        named = isinstance(error, RuntimeError) and re.search("(?i)gloo|nccl", str(error))
        if named or isinstance(error, dist.DistError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _end_process(status: int) -> None:
    """End the process after all exit functions, but without freeing C++ objects, which may wait or abort."""
    atexit.unregister(_end_process)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status)

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
import time
import traceback
import uuid
from contextlib import suppress
from datetime import timedelta

import torch
import torch.distributed as dist

# Its default arguments hold the group that exists when it is imported; creating an optimizer imports it. If that
# happened after the group is made, destroy_process_group() would not free the group, and the interpreter could abort at
# its exit.
import torch.distributed.nn.functional

from ding_lite.utils.ranks.heartbeat import LAST_WORD, HangWatch, read_seconds, record_cause
from ding_lite.utils.ranks.interrupt import INTERRUPTED
from ding_lite.utils.ranks.launch_environment import Launch, read_launch
from ding_lite.utils.ranks.machine_group import leave_machine_group, watch_machine_group
from ding_lite.utils.ranks.ranks import get_rank, get_world_size
from ding_lite.utils.ranks.watchdog import Watchdog
from ding_lite.utils.registry import UserError

EXIT_GRACE = 5.0  # seconds that a failed rank gets to clean up before it is ended


def _open_store(launch: Launch, timeout: timedelta) -> dist.Store | None:
    """Return the store of this attempt's ranks under torch's launcher; None: use the environment variables.

    The launcher keeps one store for all restarts. Without a prefix for each attempt, restarted ranks would sometimes
    read addresses of ranks that no longer exist.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    store = dist.TCPStore(launch.addr, launch.port, timeout=timeout, wait_for_workers=False)
    return dist.PrefixStore(_agree_on_attempt(store, launch, timeout), store)


def _agree_on_attempt(store: dist.Store, launch: Launch, timeout: timedelta) -> str:
    """Return a name that all ranks of this attempt share, and that no earlier attempt used.

    The launcher's count of restarts is not unique: one of two machines may have been restarted. Therefore each rank
    asks under a unique name, and rank 0 answers all questions, even old ones, until every rank of this attempt has the
    name.
    """
    own = f"ding_lite/{uuid.uuid4().hex}"
    if launch.rank > 0:
        store.set(f"ding_lite/asks/{launch.rank}", own)
        attempt = store.get(f"{own}/answer").decode()
        store.add(f"{attempt}/met", 1)
        return attempt
    answered, deadline = set[bytes](), time.monotonic() + timeout.total_seconds()
    while store.add(f"{own}/met", 0) < launch.world_size - 1:
        keys = [f"ding_lite/asks/{rank}" for rank in range(1, launch.world_size)]
        asking = {store.get(key) for key in keys if store.check([key])}
        for name in asking - answered:
            store.set(f"{name.decode()}/answer", own)
        answered |= asking
        if time.monotonic() > deadline:
            raise RuntimeError(f"{launch.world_size} ranks expected, {store.add(f'{own}/met', 0) + 1} came")
        time.sleep(0.01)
    return own


class DDPContext:
    """Joins the process group that the launcher describes, and leaves it at the end of the block.

    CPU tensors are sent over gloo, CUDA tensors over nccl if every local rank has its own GPU, else over gloo too. A
    group that already exists is used, and left as it is. A single process joins no group.

    An exception inside the block ends the process:

    * a `UserError` with status 2. Only its message is printed, and only by rank 0 if all ranks make the same mistake.
    * Ctrl-C, if nothing handles it, with status 130 and one line.
    * with several ranks, any other exception with status 1. The traceback is printed with the rank before every line.
      If a collective failed because another rank was lost, one line names that rank instead.

    Cleaning up takes at most `EXIT_GRACE` seconds, even if a collective is pending. A rank that dies or hangs ends the
    job, see `watchdog`.

    Args:
        timeout: the most seconds that joining the group, one collective, or the time between two calls of `heartbeat`
            may take. None: the environment variable DING_LITE_TIMEOUT, else 600.
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
        self._watchdog: HangWatch | None = None

    def __enter__(self) -> DDPContext:
        launch = None if dist.is_initialized() else read_launch()
        if launch is None:
            self._watch(None)
            return self
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if gpus:
            torch.cuda.set_device(launch.local_rank % gpus)
        bound = gpus > 0 and "SLURM_GPUS_PER_TASK" in os.environ  # each rank sees only its own GPU
        own_gpu = (gpus >= launch.local_world_size or bound) and dist.is_nccl_available()
        os.environ.update(MASTER_ADDR=launch.addr, MASTER_PORT=str(launch.port))
        backend, timeout = "cpu:gloo,cuda:nccl" if own_gpu else "gloo", timedelta(seconds=self.timeout)
        try:
            store = _open_store(launch, timeout)
            dist.init_process_group(backend, None, timeout, launch.world_size, launch.rank, store)
            self._watch(launch)
        except (RuntimeError, ValueError) as error:
            cause = (str(error).splitlines() or [type(error).__name__])[0]
            why = f"the {launch.world_size} ranks did not meet at {launch.addr}:{launch.port} within {self.timeout:g} s"
            advice = "Check that each was started with the same MASTER_ADDR and MASTER_PORT and that none has died"
            if "EADDRINUSE" in str(error):
                why, advice = f"port {launch.port} is in use", "Choose another MASTER_PORT (--master_port)"
            raise SystemExit(f"[rank {launch.rank}] {why}. {advice}. ({cause})") from None
        self._owner = True
        return self

    def _watch(self, launch: Launch | None) -> None:
        """Start the watchdog; inside another context, the outer one's watchdog is used."""
        if not DDPContext._watched:
            self._watchdog = HangWatch(self.timeout)
            if launch:
                where = (launch.rank, launch.world_size, launch.addr, launch.port)
                self._watchdog = Watchdog(self.timeout, self._dead_timeout, *where)
                watch_machine_group(self.timeout, self._watchdog.lost_others)
            self._watchdog.start()
            DDPContext._watched = True

    def _unwatch(self, status: int = 0, cause: str = "", alike: bool = False) -> None:
        if self._watchdog:
            self._watchdog.stop(status, cause, alike)
            self._watchdog, DDPContext._watched = None, False

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        cause = _describe(error)
        if not self._owner:
            self._leave_no_group(error, cause)
            return
        self._owner = False
        leave_machine_group()
        if not cause:
            self._unwatch()
            dist.destroy_process_group()
            return
        with suppress(ValueError):  # no main thread
            # A launcher that saw another rank fail sends it; first say why.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        lost = self._watchdog.explain(str(error)) if self._watchdog and _is_of_a_collective(error) else ""
        # Leaving may wait for the peers of a pending collective. A C thread, which needs no GIL, is the last resort.
        self._null = open(os.devnull, "w")  # noqa: SIM115 (must stay open until the process has ended)
        faulthandler.dump_traceback_later(EXIT_GRACE + LAST_WORD, exit=True, file=self._null)
        status = 2 if isinstance(error, UserError) else 130 if isinstance(error, KeyboardInterrupt) else 1
        text = ""
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else 1
        elif not isinstance(error, KeyboardInterrupt) and not lost:
            text = f"{error}\n" if isinstance(error, UserError) else "".join(traceback.format_exception(error))
        first = self._watchdog.first_mistake(str(error)) if self._watchdog and isinstance(error, UserError) else ""
        shown = f"{INTERRUPTED}\n" if isinstance(error, KeyboardInterrupt) else text
        printed_by_rank_0 = shown in (f"{INTERRUPTED}\n", f"{first}\n")
        if self._report and (get_rank() == 0 or not printed_by_rank_0):
            sys.stderr.write(textwrap.indent(shown, f"[rank {get_rank()}] "))
            sys.stderr.flush()
        mistake = str(error) if isinstance(error, UserError) else ""
        record_cause(f"lost another rank: {lost}" if lost else cause, None, text, mistake, bool(lost))
        self._unwatch(status, "" if lost or not isinstance(error, Exception) else cause, alike=bool(first))
        atexit.register(_end_process, status)
        leaving = threading.Thread(target=dist.destroy_process_group, daemon=True)
        leaving.start()
        leaving.join(EXIT_GRACE / 5)
        if not isinstance(error, SystemExit):
            raise SystemExit(status) from None

    def _leave_no_group(self, error: BaseException | None, cause: str) -> None:
        """Leave the block if it joined no group: one process, or a group that existed before."""
        if cause and self._watchdog:
            mistake = str(error) if isinstance(error, UserError) else ""
            record_cause(cause, None, "".join(traceback.format_exception(error)), mistake)
        self._unwatch()
        if isinstance(error, KeyboardInterrupt) and get_world_size() == 1:
            if self._report:
                print(INTERRUPTED, file=sys.stderr)
            raise SystemExit(128 + signal.SIGINT) from None
        if isinstance(error, UserError) and get_world_size() == 1:
            if self._report:
                print(error, file=sys.stderr)
            raise SystemExit(2) from None


def _describe(error: BaseException | None) -> str:
    """Return an exception as one line; empty for an exit with status 0."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return ""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _is_of_a_collective(error: BaseException | None) -> bool:
    """Return whether a collective raised the error, or an error that caused it."""
    if error is None:
        return False
    if isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and re.search("(?i)gloo|nccl", str(error))
    ):
        return True
    return _is_of_a_collective(error.__cause__ or error.__context__)


def _end_process(status: int) -> None:
    """End the process after all exit functions, but without freeing C++ objects, which may wait or abort."""
    atexit.unregister(_end_process)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status)

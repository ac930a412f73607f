"""Starts the ranks of a job on this machine, from the command line (`run_ranks`) or from Python (`launch`).

torch's elastic launcher runs in this process, restarts ranks after a failure, and prints one or two lines about it. It
does not restart a run after a signal or after a mistake of the user, which the ranks print.
"""

from __future__ import annotations

import inspect
import logging
import os
import pickle
import secrets
import signal
import socket
import sys
import tempfile
import textwrap
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import spawn
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup, WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from ding_lite.config import read_pair
from ding_lite.run.pipelines import pipeline_for
from ding_lite.utils.checkpoint.run_directory import last_exp_dir, read_result
from ding_lite.utils.disk import check_temporary_directory
from ding_lite.utils.key import show
from ding_lite.utils.ranks.collectives import get_rank, get_world_size
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.interrupt import SIGNALS, end_with_parent, restoring_signals
from ding_lite.utils.ranks.launch_environment import (
    OWN_LAUNCHER,
    allow_descriptors,
    check_processes,
    loopback,
    read_launch,
    record_cause,
    set_variables,
)
from ding_lite.utils.ranks.meeting import host_store
from ding_lite.utils.ranks.signing import SECRET
from ding_lite.utils.registry import ConfigError, UserError, closest

# What a rank runs before anything can be imported: finding the package may need the caller's sys.path.
START = (
    "import sys; sys.path[:] = {path!r}; from ding_lite.launch.launcher import run_call; run_call({folder!r}, {caller})"
)
UNPICKLABLE = (pickle.PicklingError, AttributeError, TypeError)  # the errors of pickle.dumps
_importing = False  # whether this is a rank that imports the caller's script
USER_ERROR = 2  # the exit status of a rank that ends with a UserError
JOIN_TIMEOUT = 600  # seconds that a request to the launcher's store may take
SAVE_GRACE = 120  # seconds that ranks have after a signal before they are killed
FORWARDED = (*SIGNALS, signal.SIGHUP, signal.SIGQUIT)


class LaunchError(RuntimeError):
    """A rank of `launch` failed; the message names the rank and ends with its traceback.

    Attributes:
        rank: number of the rank.
        exitcode: exit status of its process; -N: signal N killed it.
    """

    def __init__(self, text: str, rank: int, exitcode: int) -> None:
        super().__init__(text)
        self.rank, self.exitcode = rank, exitcode


def launch(
    fn_or_config: Callable[..., Any] | str | Path | Sequence[dict[str, Any]],
    nproc_per_node: int = 1,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    max_restarts: int = 0,
) -> Any:
    """Run a function on new processes of this machine, each inside `with DDPContext():`, and return rank 0's result.

    A script must call it below `if __name__ == "__main__":`, because each process imports the script. Ctrl-C is passed
    on to all ranks, which may save. Signal handlers, environment variables and process groups of this process do not
    change.

    Args:
        fn_or_config: a function that can be imported; or a config, `(main_config, create_config)` or the path of a
            file, whose pipeline is run. On several processes `policy.multi_gpu=True` is set.
        nproc_per_node: number of processes; 1 also starts a new process.
        args: positional arguments of the function; they are pickled.
        kwargs: keyword arguments of the function, or of the pipeline, such as `seed, max_env_step, overrides`.
        max_restarts: how many times all ranks are restarted after one has failed; the run of a config then continues.

    Returns:
        The function's result on rank 0, which is pickled; for a config the content of result.json, and `exp_dir`.

    Raises:
        LaunchError: a rank failed.
        UserError: a mistake of the user, found here or on a rank; the ranks are not restarted. More than four ranks a
            core, if there are not as many GPUs, are one.
    """
    _check_caller(nproc_per_node, max_restarts)
    check_processes(nproc_per_node, "launch: nproc_per_node", torch.cuda.device_count())
    check_temporary_directory()
    if callable(fn_or_config):
        call = _pack(fn_or_config, tuple(args), dict(kwargs or {}))
    elif args:
        raise ConfigError(
            "launch: a config takes no args; give kwargs, such as kwargs=dict(seed=0, max_env_step=20000)."
        )
    else:
        call = _pack(run_config, (fn_or_config, dict(kwargs or {})), {})
    interrupted = None
    with tempfile.TemporaryDirectory(prefix="ding_lite_") as folder:
        Path(folder, "call").write_bytes(call)
        command = [sys.executable, "-u", "-c", START.format(path=sys.path, folder=folder, caller=os.getpid())]
        try:
            with restoring_signals(FORWARDED):
                supervise(command, nproc_per_node, max_restarts, folder)
        except ChildFailedError as error:
            raise _explain(error) from None
        except SignalException as error:
            interrupted = error.sigval
        if not interrupted:
            result = Path(folder, "result")
            # Without a result, the function called sys.exit(0).
            return pickle.loads(result.read_bytes()) if result.exists() else None
    signal.raise_signal(interrupted)  # now for the caller's own handler
    raise LaunchError(f"Interrupted by {interrupted.name}.", -1, 128 + interrupted)


def run_config(config: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Run the pipeline that a config's policy names; return the content of result.json, and `exp_dir`."""
    overrides = ["policy.multi_gpu=True"] * (get_world_size() > 1) + [*kwargs.pop("overrides", ())]  # the user's win
    pair = read_pair(config)
    pipeline = pipeline_for(pair, overrides)
    known = inspect.signature(pipeline).parameters
    for key in set(kwargs) - set(known):
        raise ConfigError(f"launch: {pipeline.__name__} takes no '{key}'.{closest(key, known)}")
    pipeline(pair, **kwargs, overrides=overrides)
    path = last_exp_dir()
    return {**read_result(path), "exp_dir": path}


def run_call(folder: str, caller: int) -> None:
    """Run as a rank: call the function that `launch` wrote to `folder`, and write rank 0's result there."""
    end_with_parent(signal.SIGTERM, caller)
    attempt, last = (os.environ[f"TORCHELASTIC_{name}"] for name in ("RESTART_COUNT", "MAX_RESTARTS"))
    try:
        function, args, kwargs = _unpack(Path(folder, "call").read_bytes())
        with DDPContext(report=attempt != last):  # the caller shows the last attempt's error
            value = function(*args, **kwargs)
            if get_rank() == 0:
                try:
                    Path(folder, "result").write_bytes(pickle.dumps(value))
                except UNPICKLABLE as error:
                    raise UserError(
                        f"launch: the function returned {show(value)}, which cannot be sent to the caller: {error}. "
                        "Return numbers, arrays, dicts or state_dicts."
                    ) from error
    except Exception as error:
        mistake, trace = str(error) if isinstance(error, UserError) else "", traceback.format_exception(error)
        record_cause(f"{type(error).__name__}: {error}", None, "".join(trace), mistake)
        if attempt != last:
            traceback.print_exception(error)
        sys.exit(USER_ERROR if isinstance(error, UserError) else 1)


def _check_caller(nproc: int, max_restarts: int) -> None:
    if not isinstance(nproc, int) or nproc < 1 or not isinstance(max_restarts, int) or max_restarts < 0:
        got = f"{nproc!r} and {max_restarts!r}"
        raise ConfigError(f"launch: expected nproc_per_node >= 1 and max_restarts >= 0, whole numbers, got {got}.")
    if _importing:
        raise UserError(
            "launch: the script calls it while a rank imports the script, which would start processes endlessly. Put "
            "the call below `if __name__ == '__main__':`."
        )
    if read_launch() is not None:
        raise UserError(
            "launch: this process is a rank already, and launch starts ranks itself. Call it in a process of its own, "
            "not under torchrun or srun."
        )


def _pack(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return the ranks' task as bytes: what to import first, and then, pickled separately, function and arguments."""
    main, name = sys.modules["__main__"], getattr(function, "__qualname__", repr(function))
    prepare: dict[str, Any] = {"sys_argv": sys.argv, "dir": os.getcwd()}
    if main.__spec__ is not None:
        prepare["init_main_from_name"] = main.__spec__.name
    elif os.path.isfile(getattr(main, "__file__", None) or ""):  # false for <stdin>
        prepare["init_main_from_path"] = os.path.abspath(str(main.__file__))
    elif getattr(function, "__module__", "") == "__main__":
        raise UserError(
            f"launch: fresh processes cannot import '{name}' of an interactive session: put it into a file."
        )
    if "<" in name:
        raise UserError(f"launch: fresh processes cannot import '{name}': define it with def at the top of a file.")
    try:
        return pickle.dumps((prepare, pickle.dumps((function, args, kwargs))))
    except UNPICKLABLE as error:
        raise UserError(
            f"launch: '{name}' and its arguments are sent to the ranks pickled, but one cannot be: {error}."
        ) from error


def _unpack(call: bytes) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Import the caller's script as multiprocessing does, and return the function and its arguments."""
    global _importing
    prepare, packed = pickle.loads(call)
    _importing = True
    spawn.prepare(prepare)
    try:
        function, args, kwargs = pickle.loads(packed)
    except (ImportError, AttributeError) as error:
        raise UserError(f"launch: a fresh process cannot import the function or an argument: {error}.") from error
    _importing = False
    return function, args, kwargs


def _explain(error: ChildFailedError) -> Exception:
    """Return the error that `launch` raises: a `UserError`, or a `LaunchError` with the failed rank's traceback."""
    rank, failure = first_failure(error.failures)
    cause, signum = read_cause(failure), interrupted_by(failure)
    if cause.mistake:
        mistake = UserError(cause.mistake)
        mistake.add_note(f"(raised on rank {rank})")
        return mistake
    why = f"interrupted by {signal.Signals(signum).name}." if signum else cause.message
    why = f"\n\n{cause.traceback}" if cause.traceback else why and f" {why}"
    return LaunchError(describe_end(rank, failure) + (why and f":{why}"), rank, failure.exitcode)


def run_ranks(command: Sequence[str], nproc: int, max_restarts: int) -> int:
    """Run `nproc` processes of a command on this machine; print why they failed if they did.

    Returns:
        The exit status: 0; 128 + N if signal N interrupted the run; 2 after a mistake of the user, 1 after a failure.
    """
    check_processes(nproc, "--nproc", torch.cuda.device_count())
    check_temporary_directory()
    try:
        with tempfile.TemporaryDirectory(prefix="ding_lite_") as folder, restoring_signals(FORWARDED):
            supervise(command, nproc, max_restarts, folder)
        return 0
    except ChildFailedError as error:
        rank, failure = first_failure(error.failures)
        signum = interrupted_by(failure)
        if not signum and not read_cause(failure).mistake:  # the rank itself has printed a mistake of the user
            _say(_describe(rank, failure))
        return 128 + signum if signum else USER_ERROR if failure.exitcode == USER_ERROR else 1
    except SignalException as error:
        for number in set(FORWARDED) - {signal.SIGINT}:
            signal.signal(number, signal.SIG_IGN)  # a scheduler may send several
        return 128 + error.sigval


def supervise(command: Sequence[str], nproc: int, max_restarts: int, folder: str) -> None:
    """Start `nproc` processes of a command and wait for them to end. The caller has to restore the signal handlers.

    If one fails, all are ended, and restarted at most `max_restarts` times; then `ChildFailedError` is raised. Signals
    are passed on to the ranks, and `SignalException` is raised when they have ended; a Ctrl-C after the first signal
    kills them. Ranks write the causes of failures to `folder`.
    """
    allow_descriptors(nproc, hosts_store=True)
    # A script ignores SIGINT for its background jobs, but runs handle it. nohup ignores SIGHUP, which is respected.
    handled = [n.name for n in FORWARDED if n in SIGNALS or signal.getsignal(n) != signal.SIG_IGN]
    variables = {"TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(handled), OWN_LAUNCHER: str(os.getpid())}
    variables[SECRET] = os.environ.get(SECRET) or secrets.token_hex()
    if nproc > 1 and "OMP_NUM_THREADS" not in os.environ:
        variables["OMP_NUM_THREADS"] = "1"  # torchrun's default: otherwise the ranks compete for the cores
    log = logging.getLogger("torch.distributed.elastic")
    handlers, propagate = log.handlers, log.propagate
    if "LOGLEVEL" not in os.environ:  # torch's switch
        log.handlers, log.propagate = [*handlers, logging.NullHandler()], False
    program, *words = command
    try:
        with set_variables(variables):
            spec = WorkerSpec(
                "rank", nproc, LocalRendezvous(), entrypoint=program, args=tuple(words), max_restarts=max_restarts
            )
            Agent(spec, DefaultLogsSpecs(folder)).run()
    finally:
        log.handlers, log.propagate = handlers, propagate


class LocalRendezvous(StaticTCPRendezvous):
    """The ranks of this machine and nobody else: its store listens on the loopback address, and holds no pickles."""

    def __init__(self) -> None:
        store = host_store(loopback(), 0, JOIN_TIMEOUT)
        super().__init__(store.host, store.port, 0, 1, uuid.uuid4().hex, JOIN_TIMEOUT)
        self._store = store


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
    """The content of a rank's error file, see `record_cause`; all fields are empty if there is none."""

    message: str = ""
    traceback: str = ""
    mistake: str = ""
    lost_peer: bool = False


def read_cause(failure: ProcessFailure) -> Cause:
    """Return the content of the failed rank's error file."""
    report = failure.error_file_data["message"]
    if not isinstance(report, dict):  # torch's own message if there is no file
        return Cause()
    more = {key: value for key, value in report["extraInfo"].items() if key in Cause._fields}
    return Cause(" ".join(report["message"].split()), **more)


def interrupted_by(failure: ProcessFailure) -> int:
    """Return the signal after which the rank saved and ended, 0 if it failed."""
    return failure.exitcode - 128 if failure.exitcode - 128 in SIGNALS else 0


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

"""`launch`: runs a function, or a config's pipeline, on several new processes of this machine, from Python."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from ding_lite.config import find_policy
from ding_lite.config.schema import PIPELINE_OF
from ding_lite.entry.launcher import ranks
from ding_lite.entry.pipelines import load_pipeline
from ding_lite.utils.checkpoint.run_directory import last_exp_dir, read_result
from ding_lite.utils.key import show
from ding_lite.utils.parent_process import end_with_parent
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.heartbeat import record_cause
from ding_lite.utils.ranks.launch_environment import read_launch
from ding_lite.utils.ranks.ranks import get_rank, get_world_size
from ding_lite.utils.registry import ConfigError, UserError, closest

# What a rank runs before anything can be imported: finding the package may need the caller's sys.path.
START = (
    "import sys; sys.path[:] = {path!r}; from ding_lite.entry.launcher.function import run_call; "
    "run_call({folder!r}, {caller})"
)
_importing = False  # whether this is a rank that imports the caller's script


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
        UserError: a mistake of the user, found here or on a rank; the ranks are not restarted.
    """
    _check_caller(nproc_per_node, max_restarts)
    if callable(fn_or_config):
        call = _pack(fn_or_config, tuple(args), dict(kwargs or {}))
    elif args:
        raise ConfigError(
            "launch: a config takes no args; give kwargs, such as kwargs=dict(seed=0, max_env_step=20000)."
        )
    else:
        call = _pack(train, (fn_or_config, dict(kwargs or {})), {})
    handlers, interrupted = ranks.signal_handlers(), None
    with tempfile.TemporaryDirectory(prefix="ding_lite_") as folder:
        Path(folder, "call").write_bytes(call)
        command = [sys.executable, "-u", "-c", START.format(path=sys.path, folder=folder, caller=os.getpid())]
        try:
            ranks.supervise(command, nproc_per_node, max_restarts, folder)
        except ChildFailedError as error:
            raise _explain(error) from None
        except SignalException as error:
            interrupted = error.sigval
        finally:
            ranks.restore_handlers(handlers)
        if not interrupted:
            result = Path(folder, "result")
            return pickle.loads(result.read_bytes()) if result.exists() else None  # it ended with sys.exit(0)
    signal.raise_signal(interrupted)  # now for the caller's own handler
    raise LaunchError(f"Interrupted by {interrupted.name}.", -1, 128 + interrupted)


def train(config: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Run the pipeline that a config's policy names; return the content of result.json, and `exp_dir`."""
    together = ["policy.multi_gpu=True"] if get_world_size() > 1 else []  # before the user's own, which win
    overrides = [*together, *kwargs.pop("overrides", ())]
    pair, policy_cls = find_policy(config, overrides)
    pipeline = load_pipeline(PIPELINE_OF[policy_cls.learns_from])
    known = inspect.signature(pipeline).parameters
    for key in set(kwargs) - set(known):
        raise ConfigError(f"launch: {pipeline.__name__} takes no '{key}'.{closest(key, known)}")
    pipeline(pair, **kwargs, overrides=overrides)
    path = last_exp_dir()
    return {**read_result(path), "exp_dir": path}


def run_call(folder: str, caller: int) -> None:
    """Run as a rank: call the function that `launch` wrote to `folder`, and write rank 0's result there.

    Args:
        folder: the directory that `launch` shares with the ranks.
        caller: process id of the process that called `launch`.
    """
    end_with_parent(signal.SIGTERM, caller)
    attempt, last = (os.environ[f"TORCHELASTIC_{name}"] for name in ("RESTART_COUNT", "MAX_RESTARTS"))
    try:
        function, args, kwargs = _unpack(Path(folder, "call").read_bytes())
        with DDPContext(report=attempt != last):  # the caller shows the last attempt's error
            value = function(*args, **kwargs)
            if get_rank() == 0:
                _leave(value, Path(folder, "result"))
    except Exception as error:
        mistake, trace = str(error) if isinstance(error, UserError) else "", traceback.format_exception(error)
        record_cause(f"{type(error).__name__}: {error}", None, "".join(trace), mistake)
        if attempt != last:
            traceback.print_exception(error)
        sys.exit(ranks.USER_ERROR if isinstance(error, UserError) else 1)


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
    """Return the ranks' task as bytes: what to import first, and then, pickled separately, function and arguments.

    Raises:
        UserError: a new process could not import the function, or something cannot be pickled.
    """
    main, name = sys.modules["__main__"], getattr(function, "__qualname__", repr(function))
    prepare: dict[str, Any] = {"sys_argv": sys.argv, "dir": os.getcwd()}
    if main.__spec__ is not None:
        prepare["init_main_from_name"] = main.__spec__.name
    elif os.path.isfile(getattr(main, "__file__", None) or ""):  # not <stdin>
        prepare["init_main_from_path"] = os.path.abspath(str(main.__file__))
    elif getattr(function, "__module__", "") == "__main__":
        raise UserError(
            f"launch: fresh processes cannot import '{name}' of an interactive session: put it into a file."
        )
    if "<" in name:
        raise UserError(f"launch: fresh processes cannot import '{name}': define it with def at the top of a file.")
    try:
        return pickle.dumps((prepare, pickle.dumps((function, args, kwargs))))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
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


def _leave(value: Any, path: Path) -> None:
    """Write rank 0's result to `path`.

    Raises:
        UserError: the result cannot be pickled.
    """
    try:
        path.write_bytes(pickle.dumps(value))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UserError(
            f"launch: the function returned {show(value)}, which cannot be sent to the caller: {error}. Return "
            "numbers, arrays, dicts or state_dicts."
        ) from error


def _explain(error: ChildFailedError) -> Exception:
    """Return the error that `launch` raises: a `UserError`, or a `LaunchError` with the failed rank's traceback."""
    rank, failure = ranks.first_failure(error.failures)
    cause, signum = ranks.read_cause(failure), ranks.interrupted_by(failure)
    if cause.mistake:
        mistake = UserError(cause.mistake)
        mistake.add_note(f"(raised on rank {rank})")
        return mistake
    message = f"interrupted by {signal.Signals(signum).name}." if signum else cause.message
    why = f"\n\n{cause.traceback}" if cause.traceback else f" {message}"
    text = ranks.describe_end(rank, failure) + (f":{why}" if cause.traceback or message else "")
    return LaunchError(text, rank, failure.exitcode)

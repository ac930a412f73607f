"""One process per environment: gymnasium's AsyncVectorEnv, made safe to lose workers and to start beside torch.

Never imports torch: worker processes import this module.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.vector.async_vector_env import _async_worker

LOST = (EOFError, ConnectionError)  # what the other end of a pipe sees when a process is gone
CLOSE_GRACE = 5.0  # seconds that workers get to close their environments before they are killed


class SubprocessVectorEnv(AsyncVectorEnv):
    """gymnasium's AsyncVectorEnv, with light workers that survive Ctrl-C and can be lost without a hang.

    Raises:
        RuntimeError: from `step` and `reset`, when a worker died or gave no answer within `step_timeout` seconds; the
            workers are stopped then.
    """

    def __init__(self, env_fns: Sequence[Callable[[], gymnasium.Env]], step_timeout: float) -> None:
        self._timeout = step_timeout
        # a fork of this process would inherit torch, its threads and the other workers' pipes
        context = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        if context == "forkserver":
            multiprocessing.get_context(context).set_forkserver_preload([__name__])
        with _main_module_hidden():
            super().__init__(
                env_fns, copy=False, context=context, worker=_quiet_worker, autoreset_mode=AutoresetMode.SAME_STEP
            )

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in every environment."""
        with self._losses_reported():
            self.reset_async(seed=seed, options=options)
            return self.reset_wait(self._timeout)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step in every environment."""
        with self._losses_reported():
            self.step_async(actions)
            return self.step_wait(self._timeout)

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Let the workers close their environments, and kill those that have not after a few seconds."""
        grace = 0.0 if terminate else CLOSE_GRACE if timeout is None else timeout
        deadline = time.monotonic() + grace
        pipes = [pipe for pipe in self.parent_pipes if pipe is not None]
        for pipe in pipes:
            with suppress(*LOST):
                pipe.send(("close", None))
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in pipes:
            pipe.close()

    def _check_spaces(self) -> None:
        with self._losses_reported():
            super()._check_spaces()

    @contextmanager
    def _losses_reported(self) -> Iterator[None]:
        try:
            yield
        except (multiprocessing.TimeoutError, *LOST) as error:
            message = self._describe_loss()
            self.close(terminate=True)
            raise RuntimeError(message) from error

    def _describe_loss(self) -> str:
        time.sleep(0.1)  # a dying worker closes its pipe a moment before its exit code is known
        dead = [f"{i} (exit code {p.exitcode})" for i, p in enumerate(self.processes) if p.exitcode is not None]
        if dead:
            return f"Environment worker {', '.join(dead)} died: see its output above, and whether memory ran out."
        silent = [str(i) for i, pipe in enumerate(self.parent_pipes) if pipe is not None and not pipe.poll()]
        return (
            f"Environment worker {', '.join(silent)} gave no answer within {self._timeout:g} s: "
            "it is stuck, or env.manager.step_timeout is too short for this environment."
        )


def _quiet_worker(*args: Any) -> None:
    """Run gymnasium's worker; Ctrl-C is for the parent to handle, and a parent that is gone is no error here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _async_worker(*args)
    except LOST:
        parent = multiprocessing.parent_process()
        if parent is None or parent.is_alive():
            raise  # an environment's own failure, such as a simulator that refuses the connection


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Keep new processes from running the user's script again, which would import torch in each of them.

    They do not need it: environments travel by cloudpickle, which takes classes of the script along by value.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main

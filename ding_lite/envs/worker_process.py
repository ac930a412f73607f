"""The worker processes of `SubprocessVectorEnv`: one environment each, forked by a process called the nursery.

The nursery is a small child process of the parent, one for each vector environment. It has imported what environments
need, so it forks a worker in milliseconds. When its socket to the parent closes, for whatever reason the parent ended,
it ends its workers and itself. If the nursery is killed, the kernel ends the workers. No worker therefore outlives the
run, even if it is stuck in native code. Neither does a program that an environment started, because it belongs to the
process group of its worker.

Nothing has a name in a file system, so nothing remains there. `multiprocessing` would use named semaphores and a
directory, which remain after a SIGKILL of the parent's process group.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import clear_mpi_env_vars, create_empty_array

from ding_lite.envs.seeded_env import step_or_restart
from ding_lite.utils.ranks.interrupt import end_with_parent
from ding_lite.utils.registry import UserError
from ding_lite.utils.seed import seed_globals
from ding_lite.utils.tree import tree_leaves, tree_map, write_row

LOST = (EOFError, ConnectionError)  # errors that a pipe raises after the process at its other end has ended
START_TIMEOUT = 60.0  # seconds within which a process must start and build its environment
NUMBER = struct.Struct("q")  # format of messages between parent and nursery: process ids and exit codes
ALIGN_BYTES = 64  # the array of each part of an observation starts at a multiple of this
ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT  # ask without waiting, and without releasing the process id
PARENTS_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def share_observations(space: gymnasium.Space[Any], num_envs: int, memory: int) -> Any:
    """Return the observations `[N, ...]` of N environments, in an unnamed file that all their processes share.

    There are no locks, because each worker writes only its own rows.
    """
    like = create_empty_array(space, n=num_envs, fn=np.empty)
    ends = list(accumulate((-(-leaf.nbytes // ALIGN_BYTES) * ALIGN_BYTES for leaf in tree_leaves(like)), initial=0))
    os.posix_fallocate(memory, 0, ends[-1])  # only grows the file; if there is too little memory, it raises
    buffer, starts = mmap.mmap(memory, ends[-1]), iter(ends)
    return tree_map(lambda leaf: np.ndarray(leaf.shape, leaf.dtype, buffer, next(starts)), like)


class Nursery:
    """The parent's handle of the nursery: starts and kills workers."""

    def __init__(self, memory: int, grace: float) -> None:
        self._memory, self._grace = memory, grace
        self._start()

    def fork(self, pipe: int) -> int:
        """Start a worker in a new process group, and return its process id; raises one of `LOST` if that fails."""
        try:
            return self._ask(0, [pipe])
        except LOST:  # the nursery was killed, and its workers with it
            self.close()
            self._start()
            return self._ask(0, [pipe])

    def kill(self, pid: int) -> int:
        """Kill a worker, if it has not ended yet, and its child processes; return the worker's exit code."""
        try:
            return self._ask(pid, [])
        except LOST:
            return -signal.SIGKILL  # the nursery was killed, and its workers with it

    def close(self) -> None:
        """Wait until all workers have ended or were killed. The caller must have closed their pipes."""
        self._control.close()
        try:
            self._process.wait(self._grace + START_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        self._control, control = socket.socketpair()
        self._control.settimeout(START_TIMEOUT)
        control.setblocking(True)
        arguments = f"{control.fileno()}, {self._memory}, {self._grace!r}"
        path = [str(entry) for entry in sys.path]
        code = f"import sys; sys.path[:] = {path!r}; from {__name__} import nurse; nurse({arguments})"
        with control, clear_mpi_env_vars():
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[control.fileno(), self._memory],
                process_group=0,  # survives a SIGKILL of the parent's group, to kill environments' processes
            )

    def _ask(self, number: int, files: list[int]) -> int:
        socket.send_fds(self._control, [NUMBER.pack(number)], files)
        answer = self._control.recv(NUMBER.size)
        if not answer:
            raise EOFError
        return int(NUMBER.unpack(answer)[0])


def nurse(control_file: int, memory: int, grace: float) -> None:
    """Run as the nursery until the parent ends: fork a worker for each file received, kill one for each process id.

    Workers that have not ended `grace` seconds after the parent are killed.
    """
    for number in PARENTS_SIGNALS:
        # a terminal or a scheduler sends these to all processes; a handler, unlike SIG_IGN, is not inherited by exec
        signal.signal(number, lambda *_: None)
    control = socket.socket(fileno=control_file)
    pids: set[int] = set()
    while True:
        try:
            request, files, _, _ = socket.recv_fds(control, NUMBER.size, 1, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            break
        if not request:
            break
        if files:
            answer = _fork_worker(Connection(files[0]), control, memory)
            pids.add(answer)
        else:
            answer = _kill_group(NUMBER.unpack(request)[0], pids)
        with suppress(ConnectionError):
            control.sendall(NUMBER.pack(answer))
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and any(os.waitid(os.P_PID, pid, ENDED) is None for pid in pids):
        time.sleep(0.01)
    for pid in list(pids):
        _kill_group(pid, pids)


def _fork_worker(pipe: Connection, control: socket.socket, memory: int) -> int:
    nursery = os.getpid()
    pid = os.fork()
    if pid:
        with suppress(OSError):  # both processes do this, so the order does not matter
            os.setpgid(pid, pid)
        pipe.close()
        return pid
    status = 1
    try:
        control.close()
        os.setpgid(0, 0)
        end_with_parent(signal.SIGKILL, nursery)
        serve(pipe, memory)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(status)


def _kill_group(pid: int, pids: set[int]) -> int:
    if pid not in pids:
        return -signal.SIGKILL  # the nursery was killed, and its workers with it
    pids.remove(pid)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def serve(pipe: Connection, memory: int) -> None:
    """Run as a worker: build the environment of the first message, and answer requests until the pipe closes.

    A request is the name of a method of `EnvServer` and its arguments. The answer is `("done", result)`, or, if the
    environment raised an error, `("failed", text)`. It is `("wrong", text)` if a new process would not help, because
    the error is a user's mistake.
    """
    server: EnvServer | None = None
    with suppress(*LOST):
        build = pipe.recv_bytes()
        while True:
            command, *arguments = pipe.recv()
            try:
                server = server or EnvServer(memory, *pickle.loads(build))
                answer = pickle.dumps(("done", getattr(server, command)(*arguments)), pickle.HIGHEST_PROTOCOL)
            except UserError as error:
                answer = pickle.dumps(("wrong", str(error)))
            except BaseException as error:
                with suppress(OSError):
                    sys.stderr.write(traceback.format_exc())
                answer = pickle.dumps(("failed", f"{type(error).__name__}: {error}"))
            pipe.send_bytes(answer)
    if server:
        server.env.close()


class EnvServer:
    """Runs one environment, writes its observations to shared memory, and restarts it when an episode ends."""

    def __init__(
        self,
        memory: int,
        index: int,
        num_envs: int,
        env_fn: Callable[[], gymnasium.Env],
        attributes: dict[str, Any],
        seed: int,
    ) -> None:
        seed_globals(seed)
        self.env = env_fn()
        self.env.set_wrapper_attr("seeds_globals", True)
        for name, value in attributes.items():
            self.env.set_wrapper_attr(name, value)
        self._index = index
        self._observations = share_observations(self.env.observation_space, num_envs, memory)

    def describe(self) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any], dict[str, Any], str | None]:
        return self.env.observation_space, self.env.action_space, dict(self.env.metadata), self.env.render_mode

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
        obs, info = self.env.reset(seed=seed, options=options)
        write_row(self._observations, self._index, obs)
        return info

    def step(self, action: Any) -> tuple[float, bool, bool, dict[str, Any]]:
        """Take a step in gymnasium's SAME_STEP mode."""
        obs, reward, terminated, truncated, info = step_or_restart(self.env, action)
        write_row(self._observations, self._index, obs)
        return float(reward), terminated, truncated, info  # a numpy number takes longer to send

    def set_attr(self, name: str, value: Any) -> str:
        """Set an attribute of the environment; return what is wrong, or an empty text."""
        try:
            self.env.set_wrapper_attr(name, value)
        except UserError as error:
            return str(error)
        return ""

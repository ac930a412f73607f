"""Runs Python programs and ranks and leaves nothing behind.

Each new Python process that imports torch costs two seconds of processor time. A fork server has imported it already.

| function | starts |
|---|---|
| `start` | any command |
| `start_forked`, `run_forked` | one Python program, forked |
| `start_by_hand` | ranks that no launcher looks after, forked |
| `launch` | one of torch's launchers, forked, with forked ranks |
| `run_ranks` | ranks without a launcher, forked |

Python processes that a forked one starts are forked too. A test of what a new process does first, such as its imports,
uses `start`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[2]
MARK = "DING_LITE_TEST_RUN"
PATIENCE = 5  # time-outs are for a quiet machine; a busy one gets that many times as long
LAUNCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def free_port() -> int:
    """Return a port of this machine that nobody uses at the moment.

    It is below those that connections and "port 0" get: one of these could be taken again before a rank opens it.
    """
    while True:
        port = 10_000 + secrets.randbelow(22_000)
        with contextlib.suppress(OSError), socket.socket() as server:
            server.bind(("127.0.0.1", port))
            return port


def say(line: str) -> None:
    """Print a line from a rank, in one write: the launchers unbuffer stdout, and ranks that share it would mix."""
    os.write(1, f"{line}\n".encode())


def clean_environment(env: dict[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without any launcher's variables, one thread a process, `env` on top."""
    kept = {k: v for k, v in os.environ.items() if k not in LAUNCH_VARIABLES and not k.startswith("SLURM_")}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**kept, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1", **(env or {})}


def find_marked(mark: str, variable: str = MARK) -> list[int]:
    """Return every process that inherited the mark. The launchers give each rank a session: no group holds them all."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's
            if f"{variable}={mark}".encode() in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
    return found


def kill_marked(mark: str) -> None:
    for pid in find_marked(mark):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def start(
    command: list[str], env: dict[str, str] | None = None, cwd: Path | str | None = None
) -> subprocess.Popen[str]:
    """Start a command in a session of its own; the caller ends it with `finish`."""
    marked = clean_environment({**(env or {}), MARK: uuid.uuid4().hex})
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command,
        env=marked,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
    )
    process.mark = marked[MARK]  # type: ignore[attr-defined]
    return process


class Forked:
    """One Python program that the fork server runs, with those parts of `subprocess.Popen` that tests use."""

    def __init__(self, words: list[str], env: dict[str, str], cwd: Path | str | None) -> None:
        """Begin `python WORDS` in the directory `cwd` with the whole environment `env`."""
        self.args, self.mark = words, env[MARK]
        self.returncode: int | None = None
        pipes = [os.pipe() for _ in range(2)]
        try:
            self.pid = fork(words, [env], cwd, *(f"/proc/{os.getpid()}/fd/{end}" for _, end in pipes))[0]
        finally:
            for _, end in pipes:
                os.close(end)
        self.stdout, self.stderr = (os.fdopen(begin) for begin, _ in pipes)
        self._read = {self.stdout: b"", self.stderr: b""}
        self._end = os.pidfd_open(self.pid)  # can be read from once the process has ended

    def poll(self) -> int | None:
        """Return the exit status, None as long as the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end and return its exit status.

        Raises:
            subprocess.TimeoutExpired: after `timeout` seconds; None: never.
        """
        if self.returncode is None:
            end = select.poll()
            end.register(self._end, select.POLLIN)
            if not end.poll(None if timeout is None else 1000 * max(timeout, 0)):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            os.close(self._end)
            self.returncode = ask({"pids": [self.pid], "timeout": 0})[0]
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait until nobody has the pipes and the process has ended; return what was printed to stdout and to stderr.

        Raises:
            subprocess.TimeoutExpired: after `timeout` seconds; a further call goes on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as pipes:
            for file in self._read:
                if not file.closed:
                    pipes.register(file, selectors.EVENT_READ, file)
            while pipes.get_map():
                ready = pipes.select(None if end is None else max(end - time.monotonic(), 0))
                if not ready:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
                for key, _ in ready:
                    piece = os.read(key.fd, 1 << 16)
                    self._read[key.data] += piece
                    if not piece:
                        pipes.unregister(key.data)
                        key.data.close()
        self.wait(None if end is None else end - time.monotonic())
        out, err = (self._read[file].decode() for file in (self.stdout, self.stderr))
        return out, err


def start_forked(words: list[str], env: dict[str, str] | None = None, cwd: Path | str | None = None) -> Forked:
    """Start `python WORDS` (`-m` and a module, `-c` and code, or a file; then arguments) as `start` does, but forked.

    /proc shows no variables of such a process: `kill_marked` finds only what it starts; `kill_rest` finds both.
    """
    return Forked([str(word) for word in words], clean_environment({**(env or {}), MARK: uuid.uuid4().hex}), cwd)


def start_by_hand(words: list[str], nproc: int = 2, cwd: Path | str | None = None, **variables: str) -> list[Forked]:
    """Start ranks of `python WORDS` that nobody looks after; the caller ends each with `finish`."""
    env = {"WORLD_SIZE": str(nproc), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **variables}
    return [start_forked(words, {**env, "RANK": str(rank)}, cwd) for rank in range(nproc)]


def finish(process: subprocess.Popen[str] | Forked, timeout: float) -> subprocess.CompletedProcess[str]:
    """Wait for a started process, then kill whatever is left of it.

    Raises:
        subprocess.TimeoutExpired: after `PATIENCE * timeout` seconds, with what was printed until then.
    """
    timeout *= PATIENCE
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_rest(process)
        out, err = process.communicate()
        raise subprocess.TimeoutExpired(process.args, timeout, out, err) from None
    finally:
        kill_rest(process)
    assert process.returncode is not None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def kill_rest(process: subprocess.Popen[str] | Forked) -> None:
    """Kill whatever there is of a started process."""
    if isinstance(process, Forked) and process.returncode is None:
        os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # it has no group of its own yet
            os.killpg(process.pid, signal.SIGKILL)
    kill_marked(process.mark)  # type: ignore[union-attr]  # `start` sets it


def run_forked(
    words: list[str],
    timeout: float = 60,
    env: dict[str, str] | None = None,
    cwd: Path | str | None = None,
    status: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS`, forked, to its end, which must have this status; None: any."""
    done = finish(start_forked(words, env, cwd), timeout)
    assert status in (None, done.returncode), done.stderr
    return done


def launch(
    script: list[str] | str | Path,
    nproc: int = 2,
    timeout: float = 60,
    env: dict[str, str] | None = None,
    launcher: Literal["run", "launch"] = "run",
    cwd: Path | str | None = None,
    fresh: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run `nproc` ranks of a script (with arguments: a list, which may begin with `-m`, module) on a free port.

    The launcher is forked, which saves its imports, or with `fresh` a new process, as a measurement needs it.
    """
    words = [str(word) for word in (script if isinstance(script, list) else [script])]
    options = [f"--nproc_per_node={nproc}", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    command = ["-m", f"torch.distributed.{launcher}", *options, *words]
    return finish(start([sys.executable, *command], env, cwd) if fresh else start_forked(command, env, cwd), timeout)


@functools.cache
def fork_server() -> subprocess.Popen[str]:
    """Start this process's fork server, which ends with it."""
    command, pipe = [sys.executable, "-m", "tests.distributed.fork_server"], subprocess.PIPE
    return subprocess.Popen(
        command, env=clean_environment(), cwd=ROOT, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    )


def ask(request: dict[str, Any]) -> list[int]:
    """Return the fork server's answer."""
    server = fork_server()
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        print(json.dumps(request), file=server.stdin, flush=True)
        answer = server.stdout.readline()
    except BaseException:  # a test's time is up, or Ctrl-C: the answer must not be taken for that of the next request
        server.kill()
        fork_server.cache_clear()
        raise
    assert answer, f"the fork server has ended with status {server.wait()}"
    return json.loads(answer)


def fork(words: list[str], environments: list[dict[str, str]], cwd: Path | str | None, out: str, err: str) -> list[int]:
    """Begin `python WORDS` once for each environment and return the processes, which print to two files."""
    job = {"words": words, "environments": environments, "cwd": str(cwd or os.getcwd()), "out": out, "err": err}
    return ask(job)


def run_ranks(
    words: list[str] | str | Path,
    nproc: int = 2,
    timeout: float = 60,
    env: dict[str, str] | None = None,
    cwd: Path | str | None = None,
    status: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """Run `nproc` ranks of a program without a launcher: for tests of what ranks do, not of how they start or fail.

    A fork server starts them, which saves importing torch in each rank and in the launcher.

    Args:
        words: a file, or a list of words as for `launch`: a file or `-m` and a module, and arguments.
        nproc: number of ranks.
        timeout: seconds on a quiet machine.
        env: environment variables to add.
        cwd: the directory of the ranks.
        status: what `returncode` must be; None: anything.

    Returns:
        What all ranks printed; `returncode` is the first status that is not 0.
    """
    command = [str(word) for word in (words if isinstance(words, list) else [words])]
    marked = clean_environment({**(env or {}), MARK: uuid.uuid4().hex})
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(nproc)}
    master["LOCAL_WORLD_SIZE"] = master["WORLD_SIZE"]
    environments = [{**marked, **master, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(nproc)]
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        try:
            pids = fork(command, environments, cwd, out.name, err.name)
            statuses = ask({"pids": pids, "timeout": timeout * PATIENCE})
        finally:
            kill_marked(marked[MARK])
        done = subprocess.CompletedProcess(command, next(filter(None, statuses), 0), out.read(), err.read())
        assert status in (None, done.returncode), done.stderr
        return done

"""Runs ranks, leaving nothing behind: with torch's own launchers, or forked from a process that has imported torch."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
MARK = "DING_LITE_TEST_RUN"
PATIENCE = 5  # time-outs are for a quiet machine; a busy one gets that many times as long
LAUNCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def free_port() -> int:
    """Return a port of this machine that nobody uses at the moment."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def say(line: str) -> None:
    """Print a line from a rank, in one write: the launchers unbuffer stdout, and ranks that share it would mix."""
    os.write(1, f"{line}\n".encode())


def clean_environment(env: dict[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without any launcher's variables, one thread a process, `env` on top."""
    kept = {k: v for k, v in os.environ.items() if k not in LAUNCH_VARIABLES and not k.startswith("SLURM_")}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**kept, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1", **(env or {})}


def kill_marked(mark: str) -> None:
    """Kill every process that inherited the mark. The launchers give each rank a session: no group holds them all."""
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's
            if f"{MARK}={mark}".encode() in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)


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


def finish(process: subprocess.Popen[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Wait for a started command, then kill whatever is left of it.

    Raises:
        subprocess.TimeoutExpired: after `PATIENCE * timeout` seconds, with what was printed until then.
    """
    timeout *= PATIENCE
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_marked(process.mark)  # type: ignore[attr-defined]
        out, err = process.communicate()
        raise subprocess.TimeoutExpired(process.args, timeout, out, err) from None
    finally:
        kill_marked(process.mark)  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def launch(
    script: list[str] | str | Path,
    nproc: int = 2,
    timeout: float = 60,
    env: dict[str, str] | None = None,
    launcher: Literal["run", "launch"] = "run",
    cwd: Path | str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `nproc` ranks of a script (with arguments: a list, which may begin with `-m`, module) on a free port."""
    words = [str(word) for word in (script if isinstance(script, list) else [script])]
    options = [f"--nproc_per_node={nproc}", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    command = [sys.executable, "-m", f"torch.distributed.{launcher}", *options, *words]
    return finish(start(command, env, cwd), timeout)


@functools.cache
def fork_server() -> subprocess.Popen[str]:
    """Start this process's fork server, which ends with it."""
    command, pipe = [sys.executable, "-m", "tests.distributed.fork_server"], subprocess.PIPE
    return subprocess.Popen(
        command, env=clean_environment(), cwd=ROOT, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    )


def run_ranks(
    words: list[str],
    nproc: int = 2,
    timeout: float = 60,
    env: dict[str, str] | None = None,
    cwd: Path | str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `nproc` ranks of a module without a launcher: for tests of what ranks do, not of how they start or fail.

    A fork server starts them, which saves importing torch in each rank and in the launcher.

    Args:
        words: `-m`, the module and its arguments, as for `launch`.
        nproc: number of ranks.
        timeout: seconds on a quiet machine.
        env: environment variables to add.
        cwd: the directory of the ranks.

    Returns:
        What all ranks printed; `returncode` is the first status that is not 0.
    """
    assert words[0] == "-m", words
    marked = clean_environment({**(env or {}), MARK: uuid.uuid4().hex})
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(nproc)}
    master["LOCAL_WORLD_SIZE"] = master["WORLD_SIZE"]
    environments = [{**marked, **master, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(nproc)]
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        job = {
            "words": [str(word) for word in words[1:]],
            "environments": environments,
            "cwd": str(cwd or os.getcwd()),
            "timeout": timeout * PATIENCE,
            "out": out.name,
            "err": err.name,
        }
        server = fork_server()
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            print(json.dumps(job), file=server.stdin, flush=True)
            statuses = json.loads(server.stdout.readline())
        finally:
            kill_marked(marked[MARK])
        status = next(filter(None, statuses), 0)
        return subprocess.CompletedProcess(words, status, out.read(), err.read())

"""A process that has imported torch and ding_lite, and forks Python programs for tests/distributed/launcher.py.

Importing torch takes longer than most of what the processes of a test do, and torch's launchers import it too. The
server has no other threads when it forks. A program leaves the loop of `serve`, runs and ends as other processes do.
Python processes that it starts, such as the ranks of torch's launcher, are forked from it in turn (`fork_python`).

What a fork differs in from `python WORDS`: its modules are imported already, options of the interpreter that the
environment gives are those of the server, /proc shows the server's command line and environment, and at its end only
functions of `atexit` run: no object is freed.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import multiprocessing.process
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest  # noqa: F401  (imported, like the following ones, for the programs)
import tensorboardX  # noqa: F401
import torch._dynamo
import torch.distributed.elastic.agent.server.local_elastic_agent
import torch.distributed.elastic.rendezvous.registry
import torch.distributed.launcher.api  # noqa: F401

from ding_lite.utils.registry import BUFFER_REGISTRY, MODEL_REGISTRY, POLICY_REGISTRY

for registry in (BUFFER_REGISTRY, MODEL_REGISTRY, POLICY_REGISTRY):
    dict(registry)  # imports all classes
gc.collect()
gc.freeze()  # what has been imported stays; the forks' collections need not look at it again
begin_process = subprocess.Popen.__init__
GRACE = 30  # seconds from SIGTERM to SIGKILL, as in torch's launcher


def python_path() -> list[str]:
    """Return the directories that PYTHONPATH names."""
    return list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))


COMMON_PATH = [place for place in sys.path[1:] if place not in python_path()]  # what every Python process has


def serve() -> dict[str, Any] | None:
    """Answer the requests, one a line of stdin; return the job in a process of it, None at the end of stdin.

    A request is a job or a list of processes to wait for. A job has: `words`, what stands behind `python`: `-m` and a
    module, `-c` and code, or a file, then arguments; `environments`, one for each process; `cwd`; `out` and `err`, the
    files for stdout and stderr. The answer is the list of its processes. A list of processes comes with the `timeout`
    in seconds and is answered with their statuses, once all have ended.
    """
    for line in sys.stdin:
        request = json.loads(line)
        answer: list[int] = []
        if "words" not in request:
            answer = wait_for(**request)
        for environment in request.get("environments", []):
            files = [os.open(request[name], os.O_WRONLY | os.O_APPEND) for name in ("out", "err")]
            pid = os.fork()
            if pid == 0:
                return {**request, "environment": environment, "files": files}
            answer.append(pid)
            for file in files:
                os.close(file)
        print(json.dumps(answer), flush=True)
    return None


def wait_for(pids: list[int], timeout: float) -> list[int]:
    """Return the exit statuses of the processes. When one has failed, or time is up, the others are ended."""
    statuses: dict[int, int] = {}
    deadline, ending = time.monotonic() + timeout, False
    while len(statuses) < len(pids):
        for pid in set(pids) - set(statuses):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                statuses[pid] = os.waitstatus_to_exitcode(status)
        late = time.monotonic() > deadline
        if late or (not ending and any(statuses.values())):
            for pid in set(pids) - set(statuses):
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
            ending, deadline = True, min(deadline, time.monotonic() + GRACE)
        time.sleep(0.005)
    for pid in pids:  # what a process has left in its process group
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    return [statuses[pid] for pid in pids]


def fork_python(popen: Any, args: Any, **options: Any) -> None:
    """Be `Popen.__init__` in a forked program: `python WORDS` runs in the fork of this process, without an exec."""
    if isinstance(args, (list, tuple)) and args[0] == sys.executable and not options.get("pass_fds"):
        words, prepare = list(args[1:]), options.get("preexec_fn")
        options["preexec_fn"] = lambda: run_as_child(words, options.get("env"), prepare)
    begin_process(popen, args, **options)


def run_as_child(words: list[str], environment: dict[str, str] | None, prepare: Callable[[], None] | None) -> NoReturn:
    """Run `python WORDS` in the child of a Popen, which has its session, its directory and its standard streams."""
    if prepare is not None:
        prepare()
    for number in filter(lambda number: callable(signal.getsignal(number)), signal.valid_signals()):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    atexit._clear()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # among them the pipe on which the parent waits for the exec
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    if words[0] == "-u":
        words = words[1:]
        stdout.reconfigure(write_through=True)
    environment = dict(environment or os.environ)
    Path("/proc/self/comm").write_text(f"rank {environment.get('RANK')}")  # /proc does not show the variables
    run_words(words, environment)


def run(job: dict[str, Any]) -> NoReturn:
    """Make this process what `python WORDS` would have started, and run it."""
    os.setsid()
    os.chdir(job["cwd"])
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *job["files"])):
        os.dup2(file, number)
        os.close(file)
    subprocess.Popen.__init__ = fork_python  # type: ignore[method-assign, assignment]
    run_words(job["words"], job["environment"])


def run_words(words: list[str], environment: dict[str, str]) -> NoReturn:
    """Run `python WORDS` in this process and end it.

    Python's own end takes a quarter of a second, to free all modules; and what the parent has, such as its threads and
    process groups, must not be freed here.
    """
    status = 1
    try:
        execute(words, environment)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for the program's threads
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # it is full or closed
                stream.flush()
        if status == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(status & 0xFF)


def execute(words: list[str], environment: dict[str, str]) -> None:
    """Run `python WORDS` in this process."""
    os.environ.clear()
    os.environ.update(environment)
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]  # not in its hints
    np.random.seed()  # from the system, as in a new process; random does so itself
    first, *rest = words
    directory = {"-m": os.getcwd(), "-c": ""}.get(first, str(Path(first).resolve().parent))
    sys.path[:] = [directory, *dict.fromkeys(python_path()), *COMMON_PATH]
    sys.orig_argv = [sys.executable, *words]
    sys.argv = rest if first == "-m" else ["-c", *rest[1:]] if first == "-c" else [first, *rest]
    if first == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    if first == "-c":
        exec(rest[0], main.__dict__)
    else:
        main.__file__ = os.path.abspath(first)
        exec(compile(Path(first).read_bytes(), main.__file__, "exec"), main.__dict__)


if __name__ == "__main__":
    own_job = serve()
    if own_job is not None:
        run(own_job)

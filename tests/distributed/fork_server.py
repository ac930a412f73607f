"""A process that has imported torch and ding_lite, and forks the ranks of tests for tests/distributed/launcher.py.

Importing torch takes longer than most of what the ranks of a test do, and torch's launchers import it too. The process
has no other threads when it forks. A rank leaves the loop of `serve`, runs its module and ends as other processes do.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
import time
from typing import Any

import pytest  # noqa: F401  (imported, like the following ones, for the ranks)
import tensorboardX  # noqa: F401
import torch._dynamo
import torch.distributed  # noqa: F401

import ding_lite.entry.serial_entry
import ding_lite.policy  # noqa: F401

GRACE = 30  # seconds from SIGTERM to SIGKILL, as in torch's launcher


def serve() -> dict[str, Any] | None:
    """Run one job per line of stdin and answer with the statuses; return the job in a rank, None at the end of stdin.

    A job has: `words`, the module and its arguments; `environments`, one for each rank; `cwd`; `timeout` in seconds;
    `out` and `err`, the files for stdout and stderr of all ranks.
    """
    for line in sys.stdin:
        job = json.loads(line)
        pids: list[int] = []
        for environment in job["environments"]:
            pid = os.fork()
            if pid == 0:
                return {**job, "environment": environment}
            pids.append(pid)
        print(json.dumps(wait_for(pids, job["timeout"])), flush=True)
    return None


def wait_for(pids: list[int], timeout: float) -> list[int]:
    """Return the exit statuses of the ranks. When one has failed, or time is up, the others are ended."""
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
    for pid in pids:  # what a rank has left in its process group
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    return [statuses[pid] for pid in pids]


def run_rank(job: dict[str, Any]) -> None:
    """Make this process what `python -m WORDS` would have started, and run it."""
    os.setsid()
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["cwd"])
    for number, name in enumerate((os.devnull, job["out"], job["err"])):
        file = os.open(name, os.O_RDWR | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    module, *arguments = job["words"]
    sys.argv = [module, *arguments]
    sys.path.insert(0, os.getcwd())
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    own_job = serve()
    if own_job is not None:
        run_rank(own_job)

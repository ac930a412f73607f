"""Times a training loop from outside: optimizer steps by torch's global hook, environment steps as the loop tells them.

The clock starts at the first round boundary past the warm-up and stops at the first one past the window, so that only
whole rounds of collecting and updating are counted.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.settings import TASKS


class Finished(BaseException):
    """Raised through the measured loop when the window is over. Not an ``Exception``: no loop should swallow it."""


class Meter:
    """Rates of one training loop.

    Args:
        side: Name of the library.
        args: What ``settings.parse_side`` gave.
    """

    def __init__(self, side: str, args: Any, **info: Any) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        self.args, self.info = args, {"side": side, "task": args.task, "threads": args.threads, **info}
        self.task = TASKS[args.task]
        self.updates = self.rounds = self._depth = 0
        self.begin: tuple[float, int, int, float, float] | None = None
        register_optimizer_step_pre_hook(self._enter)
        register_optimizer_step_post_hook(self._count)

    def _enter(self, *_: Any) -> None:
        self._depth += 1

    def _count(self, *_: Any) -> None:
        self._depth -= 1
        self.updates += self._depth == 0  # torch calls the hooks again where a subclass's `step` calls its base's

    def boundary(self, env_steps: int) -> None:
        """Call before each collect, with the environment steps done so far.

        Raises:
            Finished: the window is over, and the result is written.
        """
        now = time.perf_counter()
        if self.begin is None:
            if env_steps >= self.task.warm_steps:
                self.begin = (time.perf_counter(), env_steps, self.updates, session_cpu(), machine_cpu())
            return
        self.rounds += 1
        over = (
            env_steps - self.begin[1] >= self.args.steps
            if self.args.steps
            else now - self.begin[0] >= self.args.seconds
        )
        if over:
            self._finish(env_steps, now)

    def _finish(self, env_steps: int, now: float) -> None:
        assert self.begin is not None
        start, first_step, first_update, own_cpu, all_cpu = self.begin
        seconds, steps, updates = now - start, env_steps - first_step, self.updates - first_update
        own, everyone = session_cpu() - own_cpu, machine_cpu() - all_cpu
        write_result(
            self.args.result,
            self.info
            | {
                "env_steps_per_s": steps / seconds,
                "updates_per_s": updates / seconds,
                "updates_per_step": updates / steps,
                "updates_per_round": updates / self.rounds,
                "env_steps_per_cpu_s": steps / own if own else None,
                "window_s": seconds,
                "peak_rss_mb": peak_rss_mb(),
                "own_cores": own / seconds,
                "other_cores": max(0.0, everyone - own) / seconds,
            },
        )
        raise Finished


def write_result(path: str, result: dict[str, Any]) -> None:
    """One JSON line to a file, or to standard output for ``-``."""
    line = json.dumps(result)
    if path == "-":
        print(line, flush=True)
    else:
        Path(path).write_text(line + "\n")


def peak_rss_mb() -> float:
    """Largest resident memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def session_cpu() -> float:
    """CPU seconds that this session's living processes used (the driver gives every side a session of its own)."""
    session, ticks = os.getsid(0), 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[3]) == session:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def machine_cpu() -> float:
    """CPU seconds that the whole machine used: what is more than our own disturbed the measurement."""
    if not sys.platform.startswith("linux"):
        return 0.0
    with open("/proc/stat") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(x) for x in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")

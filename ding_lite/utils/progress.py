"""How far the run is: a bar on a terminal, a plain line now and then everywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from tqdm import tqdm

LINE_PERIOD = 30.0  # seconds between two plain lines


class _Bar(tqdm):
    monitor_interval = 0  # tqdm's refresher thread is of no use to a loop that reports often


def console(line: str) -> None:
    """Print a line to stderr, above the bar if there is one. A terminal that has gone away is no reason to stop."""
    with suppress(OSError, ValueError):
        tqdm.write(f"{line}\n", file=sys.stderr, end="")  # in one piece, for other ranks write to the same terminal
        sys.stderr.flush()


class Progress(AbstractContextManager):
    """Shows env steps done, their rate, the mean return and the time left.

    Args:
        total_env_steps: Where the run stops, in env steps over all ranks; None if something else stops it.
        enabled: False on every rank but 0: nothing is shown.
        log: Takes the plain lines when stderr is no terminal, for example `ExperimentLogger.info`.
        start: Env steps done before, by a run that this one resumes; they do not count for the rate.
    """

    def __init__(
        self, total_env_steps: int | None, enabled: bool, log: Callable[[str], None] = console, start: int = 0
    ) -> None:
        done, left = ("/{total_fmt} {percentage:3.0f}%", " | left {remaining}") if total_env_steps else ("", "")
        # without tqdm's drawn bar, so that the line fits 80 columns; `desc` holds the return
        layout = f"collect {{n_fmt}}{done} | {{rate_noinv_fmt}} | {{desc}}{left}"
        self._options = {"bar_format": layout, "unit": " steps", "unit_scale": True, "initial": start}
        self._total, self._log = total_env_steps, log
        self._enabled, self._bar = enabled, None
        self._last_line = (time.monotonic(), start)  # when, env steps
        if enabled and sys.stderr is not None and sys.stderr.isatty():
            self._bar = _Bar(
                total=total_env_steps, dynamic_ncols=True, smoothing=0.05, desc=_describe(None), **self._options
            )

    def update(self, envstep: int, train_iter: int, return_mean: float | None = None) -> None:
        """Report the counts so far (over all ranks) and the latest mean return, None before the first episode ends."""
        if self._bar is not None:
            self._bar.desc = _describe(return_mean)
            self._bar.total = self._total and max(self._total, envstep)  # tqdm drops a total that was overshot
            self._bar.update(envstep - self._bar.n)
        elif self._enabled and time.monotonic() - self._last_line[0] >= LINE_PERIOD:
            self._log(f"{self._line(envstep, return_mean)} | iteration {train_iter}")

    def _line(self, envstep: int, return_mean: float | None) -> str:
        now, (then, before) = time.monotonic(), self._last_line
        self._last_line = (now, envstep)
        total = self._total and max(self._total, envstep)
        rate = (envstep - before) / max(now - then, 1e-9)
        return tqdm.format_meter(envstep, total, now - then, rate=rate, prefix=_describe(return_mean), **self._options)

    def write(self, line: str) -> None:
        """Print a line above the bar; nothing on ranks that are not enabled."""
        if self._enabled:
            console(line)

    def close(self) -> None:
        """Leave the bar's last state on the screen."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __exit__(self, *error: object) -> None:
        self.close()


def _describe(return_mean: float | None) -> str:
    return "return -" if return_mean is None else f"return {return_mean:.1f}"

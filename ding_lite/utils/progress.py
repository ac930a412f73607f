"""Shows the progress of a run: a line that is updated on a terminal, otherwise a plain line every 30 seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from tqdm import tqdm

LINE_PERIOD = 30.0  # seconds between two plain lines


class _Bar(tqdm):  # type: ignore[type-arg]  # generic in its stubs only
    monitor_interval = 0  # no refresher thread, because the loop reports often


def console(line: str) -> None:
    """Print a line to stderr, above the progress line if there is one. A closed terminal is not an error."""
    with suppress(OSError, ValueError):
        tqdm.write(f"{line}\n", file=sys.stderr, end="")  # one write, because other ranks use the same terminal
        sys.stderr.flush()


class Progress(AbstractContextManager[Any]):
    """Shows the number of steps done, their rate, the mean return and the time left.

    Args:
        total: steps of all ranks after which the run ends; None if it is unknown.
        enabled: whether to show anything; False on all ranks except 0.
        log: prints the plain lines if stderr is not a terminal, for example `ExperimentLogger.info`.
        start: steps that a resumed run had done before; they do not count for the rate.
        words: the verb, the unit of the steps, and the name of the second count of a plain line.
    """

    def __init__(
        self,
        total: int | None,
        enabled: bool,
        log: Callable[[str], None] = console,
        start: int = 0,
        words: tuple[str, str, str] = ("collect", "steps", "iteration"),
    ) -> None:
        done, left = ("/{total_fmt} {percentage:3.0f}%", " | left {remaining}") if total else ("", "")
        verb, unit, self._beside = words
        # without tqdm's drawn bar, so that the line fits 80 columns; `desc` holds the return
        layout = f"{verb} {{n_fmt}}{done} | {{rate_noinv_fmt}} | {{desc}}{left}"
        self._options: dict[str, Any] = {"bar_format": layout, "unit": f" {unit}", "unit_scale": True, "initial": start}
        self._total, self._log = total, log
        self._enabled, self._bar = enabled, None
        self._last_line = (time.monotonic(), start)  # when, steps
        self._last_note = time.monotonic()
        if enabled and sys.stderr is not None and sys.stderr.isatty():
            self._bar = _Bar(total=total, dynamic_ncols=True, smoothing=0.05, desc=_describe(None), **self._options)

    def update(self, step: int, beside: int, return_mean: float | None = None) -> None:
        """Report the counts so far, of all ranks.

        Args:
            step: number of steps.
            beside: the second count, for plain lines.
            return_mean: newest mean return; None before the first episode has ended.
        """
        if self._bar is not None:
            self._bar.desc = _describe(return_mean)
            self._bar.total = self._total and max(self._total, step)  # tqdm drops a total that was overshot
            self._bar.update(step - self._bar.n)
        elif self._enabled and time.monotonic() - self._last_line[0] >= LINE_PERIOD:
            self._log(f"{self._line(step, return_mean)} | {self._beside} {beside}")

    def note(self, text: str) -> None:
        """Show a text in place of the mean return until the next `update`, for instance during an evaluation."""
        if self._bar is not None:
            self._bar.desc = text
            self._bar.refresh()
        elif self._enabled and time.monotonic() - max(self._last_note, self._last_line[0]) >= LINE_PERIOD:
            self._last_note = time.monotonic()
            self._log(text)

    def _line(self, step: int, return_mean: float | None) -> str:
        now, (then, before) = time.monotonic(), self._last_line
        self._last_line = (now, step)
        total: Any = self._total and max(self._total, step)  # None is fine too, whatever tqdm's types say
        rate = (step - before) / max(now - then, 1e-9)
        return tqdm.format_meter(step, total, now - then, rate=rate, prefix=_describe(return_mean), **self._options)

    def close(self) -> None:
        """End the display; its last state stays on the screen."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __exit__(self, *error: object) -> None:
        self.close()


def _describe(return_mean: float | None) -> str:
    return "return -" if return_mean is None else f"return {return_mean:.1f}"

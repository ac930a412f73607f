"""Shows the progress of a run: a line that is updated, or a plain line every 30 seconds.

The line is updated on a terminal and in a notebook.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

from tqdm import tqdm

LINE_PERIOD = 30.0  # seconds between two plain lines


class _Bar(tqdm):  # type: ignore[type-arg]  # generic in its stubs only
    monitor_interval = 0  # no refresher thread, because the loop reports often
    left: Callable[[int], str] | None = None  # returns the time left after a number of steps

    @property
    def format_dict(self) -> Any:
        """The fields of the line, computed when it is drawn, not at each update."""
        return {**super().format_dict, "left": self.left(int(self.n)) if self.left else "?"}


def console(line: str) -> None:
    """Print a line to stderr, above the progress line if there is one. A closed terminal is not an error."""
    if sys.stderr is None:  # closed by the caller; tqdm would take stdout
        return
    with suppress(OSError, ValueError):
        tqdm.write(f"{line}\n", file=sys.stderr, end="")  # one write, because other ranks use the same terminal
        sys.stderr.flush()


class Progress(AbstractContextManager[Any]):
    """Shows the number of steps done, their rate per second, the time left and returns.

    The rate is that of the last steps. The time left follows from all steps since the start, or it would jump after
    every evaluation.

    Args:
        total: steps of all ranks after which the run ends; None if it is unknown.
        enabled: whether to show anything; False on all ranks except 0.
        log: prints the plain lines if stderr is not a terminal, for example `ExperimentLogger.info`.
        start: steps that a resumed run had done before; they do not count towards the rate.
        words: the names of the steps, and of the second count of a plain line.
    """

    def __init__(
        self,
        total: int | None,
        enabled: bool,
        log: Callable[[str], None] = console,
        start: int = 0,
        words: tuple[str, str] = ("step", "iteration"),
    ) -> None:
        done, left = ("/{total_fmt}", " | left {left}") if total else ("", "")
        unit, self._beside = words
        # without tqdm's drawn bar, so that the line fits 80 columns; `desc` holds the returns
        layout = f"{unit} {{n_fmt}}{done} | {{rate_noinv_fmt}}{left} | {{desc}}"
        self._options: dict[str, Any] = {"bar_format": layout, "unit": "", "unit_scale": True, "initial": start}
        self._total, self._log = total, log
        self._enabled, self._bar = enabled, None
        self._began = self._last_line = (time.monotonic(), start)  # when, steps
        self._last_note = time.monotonic()
        if enabled and _shows_updates(sys.stderr):
            self._bar = _Bar(total=total, dynamic_ncols=True, smoothing=0.05, desc=_describe({}), **self._options)
            self._bar.left = self._left

    def update(self, step: int, beside: int, returns: Mapping[str, float | None] | None = None) -> None:
        """Report the counts so far, of all ranks.

        Args:
            step: number of steps.
            beside: the second count, for plain lines.
            returns: mean returns by the names to show before them; None: not known yet.
        """
        if self._bar is not None:
            self._bar.desc = _describe(returns or {})
            self._bar.total = self._total and max(self._total, step)  # tqdm drops a total that was overshot
            self._bar.update(step - self._bar.n)
        elif self._enabled and time.monotonic() - self._last_line[0] >= LINE_PERIOD:
            self._log(f"{self._line(step, returns or {})} | {self._beside} {beside}")

    def note(self, text: str) -> None:
        """Show text in place of the returns until the next `update`, for instance during an evaluation."""
        if self._bar is not None:
            self._bar.desc = text
            self._bar.refresh()
        elif self._enabled and time.monotonic() - max(self._last_note, self._last_line[0]) >= LINE_PERIOD:
            self._last_note = time.monotonic()
            self._log(text)

    def _line(self, step: int, returns: Mapping[str, float | None]) -> str:
        now, (then, before) = time.monotonic(), self._last_line
        self._last_line = (now, step)
        total: Any = self._total and max(self._total, step)  # None is fine too, whatever tqdm's types say
        rate = (step - before) / max(now - then, 1e-9)
        shown: dict[str, Any] = {"rate": rate, "prefix": _describe(returns), "left": self._left(step)}
        return tqdm.format_meter(step, total, now - then, **shown, **self._options)

    def _left(self, step: int) -> str:
        """Return the time until the total at the mean rate since the start, such as "1:02:03"; "?" if it is unknown."""
        then, before = self._began
        if not self._total or step <= before:
            return "?"
        seconds = (self._total - step) * (time.monotonic() - then) / (step - before)
        return tqdm.format_interval(max(seconds, 0.0))

    def close(self) -> None:
        """End the display; its last state stays on the screen."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __exit__(self, *error: object) -> None:
        self.close()


def _shows_updates(stream: Any) -> bool:
    """Return whether a line can be written again in a stream: in a terminal, and below the cell of a notebook."""
    return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel."))


def _describe(returns: Mapping[str, float | None]) -> str:
    """Return "return -20.1 eval -20.6 best -20.1", without decimals from 1,000 on."""
    shown = {
        name: f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}"
        for name, value in returns.items()
        if value is not None
    }
    return " ".join(f"{name} {value}" for name, value in shown.items()) or "return -"

"""Says after a minute when a run is likely to reach its goal, and what to look at meanwhile."""

from __future__ import annotations

import shlex
import textwrap
import time

from easydict import EasyDict
from tqdm import tqdm

from ding_lite.entry.summary import WIDTH

PERIOD = 60.0  # seconds of learning after which the rate is known


class Forecast:
    """One message of a run whose config says after how many env steps others reached `env.stop_value`.

    Args:
        env: the compiled `cfg.env`.
        exp_dir: the run's directory.

    Attributes:
        expected: env steps after which it is likely to reach the goal; None if that is unknown.
    """

    def __init__(self, env: EasyDict, exp_dir: str) -> None:
        self.expected: int | None = env.get("expected_env_step")
        self._stop_value, self._exp_dir = env.stop_value, exp_dir
        self._began: tuple[float, int] | None = None  # when learning began, and the env steps then
        self._is_due = True

    def update(self, env_step: int, iteration: int) -> str:
        """Return the message if it is time for it, else an empty text.

        Args:
            env_step: env steps of all ranks so far.
            iteration: learner iterations so far. Before the first, a run that only collects is faster than later.
        """
        if self.expected is None or not self._is_due or not iteration:
            return ""
        now = time.monotonic()
        self._began = self._began or (now, env_step)
        seconds, steps = now - self._began[0], env_step - self._began[1]
        if seconds < PERIOD:
            return ""
        self._is_due = False
        left = self.expected - env_step
        if left <= 0:
            return ""
        time_left, run = tqdm.format_interval(left * seconds / max(steps, 1)), shlex.quote(self._exp_dir)
        text = (
            f"{steps / seconds:.0f} env steps a second. Runs of this config reach a return of {self._stop_value:g} "
            f"after about {self.expected:,} env steps, in {time_left} from now. Meanwhile, in another terminal:"
        )
        plot = f"ding_lite plot {run}  (its curve so far)"
        play = f"ding_lite play {run}  (a window; without a screen: video)"
        return "\n  ".join([*textwrap.wrap(text, WIDTH - 2), plot, play])

"""What a run says after a minute: when it is likely to reach its goal, and what to look at meanwhile."""

from __future__ import annotations

import shlex
import textwrap

from easydict import EasyDict
from tqdm import tqdm

from ding_lite.entry.summary import WIDTH

PERIOD = 60.0  # seconds of learning after which the rate is known


def forecast(env: EasyDict, exp_dir: str, env_step: int, rate: float) -> str:
    """Return the message.

    Args:
        env: the compiled `cfg.env`, which says after how many env steps other runs reached `stop_value`.
        exp_dir: the run's directory.
        env_step: env steps of all ranks so far.
        rate: env steps a second.
    """
    time_left, run = tqdm.format_interval((env.expected_env_step - env_step) / rate), shlex.quote(exp_dir)
    text = (
        f"{rate:.0f} env steps a second. Runs of this config reach a return of {env.stop_value:g} after about "
        f"{env.expected_env_step:,} env steps, in {time_left} from now. Meanwhile, in another terminal:"
    )
    plot = f"ding_lite plot {run}  (its curve so far)"
    play = f"ding_lite play {run}  (a window; without a screen: video)"
    return "\n  ".join([*textwrap.wrap(text, WIDTH - 2), plot, play])

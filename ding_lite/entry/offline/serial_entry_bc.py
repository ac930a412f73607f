"""The pipeline of behaviour cloning, under DI-engine's name and with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ding_lite.entry.callbacks import Callback
from ding_lite.entry.offline.serial_entry_offline import learn_offline
from ding_lite.policy import Policy


def serial_pipeline_bc(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None = None,
    data_path: str | None = None,
    model: nn.Module | None = None,
    max_iter: int = int(1e6),
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> tuple[Policy, bool]:
    """Imitate the actions of a data set; the same as `serial_pipeline_offline`, with DI-engine's arguments.

    Args:
        input_cfg: `(main_config, create_config)`, or the path of a python file that defines both.
        seed: seed of everything random, used instead of the config's own.
        data_path: the data set, instead of the config's `policy.collect.data_path`.
        model: a model to train instead of the one that `cfg.policy.model` describes.
        max_iter: learner iterations.
        overrides: `dotted.key=value` strings, which take precedence over the config.
        callbacks: are called at the events of the run, see `Callback`.

    Returns:
        The trained policy, and whether it converged: reached `env.stop_value`. Errors are `serial_pipeline_offline`'s.
    """
    data = [] if data_path is None else [f"policy.collect.data_path={data_path}"]
    return learn_offline(input_cfg, seed, None, model, max_iter, [*overrides, *data], callbacks)

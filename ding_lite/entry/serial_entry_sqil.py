"""The pipeline that imitates an expert with soft Q imitation learning, under DI-engine's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ding_lite.entry.callbacks import Callback
from ding_lite.entry.serial_entry import serial_pipeline
from ding_lite.policy import Policy
from ding_lite.utils.key import show
from ding_lite.utils.registry import ConfigError


def serial_pipeline_sqil(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    data_path: str | None = None,
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Policy:
    """Train with `serial_pipeline` and the replay buffer 'sqil', see `SQILReplayBuffer`.

    `data_path` is used instead of the config's `policy.other.replay_buffer.data_path`; the other arguments, the return
    value and the errors are those of `serial_pipeline`.
    """
    if not isinstance(data_path, str | None):
        raise ConfigError(
            f"serial_pipeline_sqil: expected the path of the expert's data set, got {show(data_path)}: record one with "
            "collect_demo_data and the expert's config."
        )
    buffer = {"type": "sqil", "data_path": data_path}
    given = [f"policy.other.replay_buffer.{key}={value}" for key, value in buffer.items() if value is not None]
    return serial_pipeline(
        input_cfg,
        seed,
        env_setting,
        model,
        max_train_iter,
        max_env_step,
        overrides=[*overrides, *given],
        callbacks=callbacks,
    )

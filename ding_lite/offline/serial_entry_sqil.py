"""The pipeline that imitates an expert with soft Q imitation learning, under DI-engine's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ding_lite.config import read_pair
from ding_lite.offline.demo_data import collect_demo_data
from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback
from ding_lite.run.serial_entry import serial_pipeline
from ding_lite.utils.key import get_key, show
from ding_lite.utils.registry import ConfigError

EXPERT_STEPS = 10_000  # env steps that an expert's policy plays


def serial_pipeline_sqil(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    expert: str | tuple[dict[str, Any], dict[str, Any]] | None = None,
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    expert_model: nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Policy:
    """Train with `serial_pipeline` and the replay buffer 'sqil', see `SQILReplayBuffer`.

    The arguments that are not explained, the return value and the errors are those of `serial_pipeline`.

    Args:
        input_cfg: see `serial_pipeline`, as for other arguments.
        expert: the expert's data set, used instead of the config's `policy.other.replay_buffer.data_path`; or as in
            DI-engine the expert's config, itself or the path of its Python file. `EXPERT_STEPS` env steps of its policy
            are then recorded in `EXP_NAME_expert.npz`, with the weights of `expert_model`, of the checkpoint
            `policy.collect.model_path` of `input_cfg`, or of the expert's best checkpoint.
        seed: see above.
        env_setting: see above.
        model: see above.
        expert_model: the expert's model, if `expert` is its config.
        max_train_iter: see above.
        max_env_step: see above.
        overrides: see above.
        callbacks: see above.
    """
    if not isinstance(expert, str | tuple | list | None):
        raise ConfigError(f"serial_pipeline_sqil: expected the expert's data set or its config, got {show(expert)}.")
    data_path = expert if isinstance(expert, str) and not expert.endswith(".py") else None
    if expert is not None and data_path is None:
        main, _ = read_pair(input_cfg)
        data_path = f"{main.get('exp_name', 'default')}_expert.npz"
        weights = get_key(main, "policy.collect.model_path")
        collect_demo_data(
            expert,
            seed,
            EXPERT_STEPS,
            data_path,
            env_setting,
            expert_model,
            state_dict_path=None if expert_model is not None else weights,
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

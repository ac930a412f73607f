"""DI-engine's names for runs with `gail.py` and `guided_cost.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ding_lite.config import find_policy, read_pair
from ding_lite.offline.demo_data import collect_demo_data
from ding_lite.offline.serial_entry_offline import record_expert
from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback
from ding_lite.run.serial_entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.utils.key import get_key

EXPERT_STEPS = 100_000  # env steps that an expert's policy plays, if the config does not say


def serial_pipeline_gail(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    expert_cfg: str | tuple[dict[str, Any], dict[str, Any]] | None = None,
    seed: int | None = None,
    model: nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    collect_data: bool = True,
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Policy:
    """Train with `serial_pipeline` and a config that has the reward model 'gail', see `GailRewardModel`.

    With the expert's config, itself or the path of its Python file, and `collect_data`, `reward_model.collect_count`
    env steps of its policy are recorded first, in `EXP_NAME_expert.npz`, as in DI-engine. The weights are those of the
    checkpoint `reward_model.expert_model_path`, or of the expert's best one. Otherwise the expert is what
    `reward_model.data_path` says. The other arguments, the return value and the errors are those of `serial_pipeline`.
    """
    if expert_cfg is not None and collect_data:
        main, _ = read_pair(input_cfg)
        count = get_key(main, "reward_model.collect_count") or EXPERT_STEPS
        path = f"{main.get('exp_name', 'default')}_expert.npz"
        weights = get_key(main, "reward_model.expert_model_path")
        collect_demo_data(expert_cfg, seed, count, path, state_dict_path=weights)
        overrides = [*overrides, f"reward_model.data_path={path}"]
    return serial_pipeline(
        input_cfg, seed, None, model, max_train_iter, max_env_step, overrides=overrides, callbacks=callbacks
    )


def serial_pipeline_guided_cost(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
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
    """Train with a config that has the reward model 'guided_cost', from replay or on-policy, as its policy learns.

    The expert is what `reward_model.data_path` or, as in DI-engine, `policy.collect.model_path` says. With
    `expert_model`, a network of the config's policy, its steps are recorded first, in `EXP_NAME_expert.npz`. The other
    arguments, the return value and the errors are those of `serial_pipeline`.
    """
    if expert_model is not None:
        main, create = read_pair(input_cfg)
        player = {key: value for key, value in main.items() if key != "reward_model"}
        by = {key: value for key, value in create.items() if key != "reward_model"}
        path = record_expert((player, by), (player, by), seed, env_setting, expert_model)
        overrides = [*overrides, f"reward_model.data_path={path}"]
    on_policy = find_policy(input_cfg, overrides).learns_from == "collect"
    train = serial_pipeline_onpolicy if on_policy else serial_pipeline
    return train(
        input_cfg,
        seed,
        env_setting,
        model,
        max_train_iter=max_train_iter,
        max_env_step=max_env_step,
        overrides=overrides,
        callbacks=callbacks,
    )

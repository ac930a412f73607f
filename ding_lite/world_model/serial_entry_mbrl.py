"""The training loops with a world model, under DI-engine's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback
from ding_lite.run.experiment import Experiment
from ding_lite.run.setup import RunSetup, policy_process, prepare_run
from ding_lite.utils.ranks.collectives import get_rank
from ding_lite.utils.registry import ConfigError


def serial_pipeline_dyna(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Policy:
    """Train a policy on real steps and on those that a world model, such as `mbpo`, imagines.

    The arguments, the return value and the errors are those of `serial_pipeline`.
    """
    limits = {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
    setup = _prepare("serial_pipeline_dyna", input_cfg, seed, env_setting, model, overrides, limits)
    process = policy_process(setup, get_rank(), "policy")
    with process as policy, Experiment(setup, policy, callbacks=callbacks) as experiment:
        replay, world_model = experiment.fill_replay_buffer(), experiment.learning_parts["world_model"]
        while not experiment.finished():
            if experiment.evaluate():
                break
            replay.push(experiment.collect())
            world_model.train(experiment.collector.envstep)
            world_model.imagine(experiment.collector.envstep)
            experiment.learn(experiment.sample(world_model.mixed))
    return experiment.policy


def serial_pipeline_dream(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Policy:
    """Train a policy whose loss asks a world model what would follow, such as `mbsac`, on real steps.

    The arguments, the return value and the errors are those of `serial_pipeline`.
    """
    limits = {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
    setup = _prepare("serial_pipeline_dream", input_cfg, seed, env_setting, model, overrides, limits)
    process = policy_process(setup, get_rank(), "policy")
    with process as policy, Experiment(setup, policy, callbacks=callbacks) as experiment:
        replay, world_model = experiment.fill_replay_buffer(), experiment.learning_parts["world_model"]
        while not experiment.finished():
            if experiment.evaluate():
                break
            replay.push(experiment.collect())
            world_model.train(experiment.collector.envstep)
            experiment.learn(experiment.sample(replay), replay.update)
    return experiment.policy


def _prepare(
    pipeline: str, input_cfg: Any, seed: Any, env_setting: Any, model: Any, overrides: Any, limits: dict[str, int]
) -> RunSetup:
    """Return the setup of a run, which must have a world model."""
    options: dict[str, Any] = {"pipeline": pipeline, "trains": "serial_pipeline", "limits": limits}
    setup = prepare_run(input_cfg, seed, env_setting, model, overrides, **options)
    if "world_model" not in setup.cfg:
        raise ConfigError(f"{pipeline} needs a world model: set create_config.world_model=dict(type='mbpo').")
    return setup

"""The training loops of policies that play: from replay, and on-policy.

This is the place to start reading. `Experiment` has the methods that the loops call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback
from ding_lite.run.experiment import Experiment
from ding_lite.run.setup import policy_process, prepare_run
from ding_lite.utils.ranks.collectives import get_rank


def serial_pipeline(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    dynamic_seed: bool = True,
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Policy:
    """Train an off-policy policy until it reaches a limit, or until an evaluation reaches `env.stop_value`.

    On several processes, every process calls this function with the same arguments.

    Args:
        input_cfg: `(main_config, create_config)`, or the path of a Python file that defines both.
        seed: replaces the config's `seed`, from which everything random is seeded.
        env_setting: `(env_fn, collector_cfgs, evaluator_cfgs)`. Each environment is built as `env_fn(cfg)`, with one
            cfg of the two lists. None: the environments are those that `cfg.env` names.
        model: the model to train. None: a new model is built from `cfg.policy.model`.
        max_train_iter: the run ends after this many learner iterations.
        max_env_step: the run ends after this many env steps of all ranks together.
        dynamic_seed: False sets `env.dynamic_seed=False`: all training episodes of an environment have its seed.
        overrides: `dotted.key=value` strings, which replace values of the config.
        callbacks: are called at the events of the run, see `Callback`.

    Returns:
        The trained policy.

    Raises:
        ConfigError: the config or an argument contains a mistake. No environment worker has started yet.
        SystemExit: a signal interrupted the run, which has saved a checkpoint, or the last checkpoint was not saved.
    """
    if not dynamic_seed:
        overrides = [*overrides, "env.dynamic_seed=False"]
    limits = {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
    setup = prepare_run(input_cfg, seed, env_setting, model, overrides, pipeline="serial_pipeline", limits=limits)
    process = policy_process(setup, get_rank(), "policy")
    with process as policy, Experiment(setup, policy, callbacks=callbacks) as experiment:
        replay = experiment.fill_replay_buffer()
        while not experiment.finished():
            if experiment.evaluate():
                break
            if experiment.plays(replay):
                replay.push(experiment.collect())
            experiment.learn(experiment.sample(replay), replay.update)
    return experiment.policy


def serial_pipeline_onpolicy(
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
    """Train an on-policy policy. It learns from the samples of each collect immediately and then discards them.

    The arguments, the return value and the errors are those of `serial_pipeline`. Limits are checked between collects,
    so a run may exceed `max_train_iter` by the iterations of one collect.
    """
    limits = {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
    pipeline = "serial_pipeline_onpolicy"
    setup = prepare_run(input_cfg, seed, env_setting, model, overrides, pipeline=pipeline, limits=limits)
    process = policy_process(setup, get_rank(), "policy")
    with process as policy, Experiment(setup, policy, callbacks=callbacks) as experiment:
        while not experiment.finished():
            if experiment.evaluate():
                break
            samples = experiment.collect()
            experiment.learn(experiment.policy.batches(samples))
    return experiment.policy

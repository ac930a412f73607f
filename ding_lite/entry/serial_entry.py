"""The off-policy pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ding_lite.entry.experiment import Experiment
from ding_lite.entry.setup import prepare_run
from ding_lite.policy import Policy


def serial_pipeline(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    overrides: Sequence[str] = (),
) -> Policy:
    """Train an off-policy policy: evaluate, collect, learn, until a limit or the stop value is reached.

    Args:
        input_cfg: `(main_config, create_config)`, or the path of a python file that defines both.
        seed: seed of everything random, used instead of the config's own.
        env_setting: `(env_fn, collector_cfgs, evaluator_cfgs)` to build environments as `env_fn(cfg)`, one for each of
            the cfgs, instead of those that `cfg.env` names.
        model: a model to train instead of the one that `cfg.policy.model` describes.
        max_train_iter: learner iterations.
        max_env_step: env steps of all ranks together.
        overrides: `dotted.key=value` strings, stronger than the config.

    Returns:
        The trained policy.

    Raises:
        ConfigError: a mistake in the config, before any environment has started.
        SystemExit: after an interrupted run has saved its checkpoint.
    """
    limits = {"max_train_iter": max_train_iter, "max_env_step": max_env_step}
    setup = prepare_run(input_cfg, seed, env_setting, model, overrides, pipeline="serial_pipeline", limits=limits)
    with Experiment(setup) as experiment:
        replay = experiment.create_replay_buffer()
        while not experiment.finished():
            if experiment.evaluate():
                break
            replay.push(experiment.collect())
            experiment.learn(experiment.sample(replay), replay.update)
    return experiment.policy

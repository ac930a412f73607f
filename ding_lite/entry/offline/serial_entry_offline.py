"""The pipeline that learns from a data set, under two names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import nn

from ding_lite.entry.callbacks import Callback
from ding_lite.entry.experiment import Experiment
from ding_lite.entry.offline.source import create_feed, read_alike
from ding_lite.entry.setup import policy_process, prepare_run
from ding_lite.policy import Policy
from ding_lite.utils.ranks.ranks import get_rank


def serial_pipeline_offline(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None = None,
    env_setting: Sequence[Any] | None = None,
    model: nn.Module | None = None,
    max_train_iter: int = int(1e10),
    *,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Policy:
    """Learn from a data set until `policy.learn.train_epoch`, another limit or the stop value is reached.

    Each rank learns from its own part, which is drawn anew in every epoch. Environments are built only for evaluation.

    Args:
        input_cfg: `(main_config, create_config)`, or the path of a python file that defines both;
            `policy.collect.data_path` names the data set.
        seed: seed of everything random, used instead of the config's own.
        env_setting: `(env_fn, collector_cfgs, evaluator_cfgs)` to build environments as `env_fn(cfg)`, instead of those
            that `cfg.env` names; collector_cfgs are not used.
        model: a model to train instead of the one that `cfg.policy.model` describes.
        max_train_iter: learner iterations.
        overrides: `dotted.key=value` strings, which take precedence over the config.
        callbacks: are called at the events of the run, see `Callback`.

    Returns:
        The trained policy.

    Raises:
        ConfigError: a mistake in the config or the data set, on every rank, before anything has started.
        SystemExit: after an interrupted run has saved its checkpoint.
    """
    return learn_offline(input_cfg, seed, env_setting, model, max_train_iter, overrides, callbacks)[0]


def learn_offline(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    seed: int | None,
    env_setting: Sequence[Any] | None,
    model: nn.Module | None,
    max_train_iter: int,
    overrides: Sequence[str],
    callbacks: Sequence[Callback] = (),
) -> tuple[Policy, bool]:
    """Run `serial_pipeline_offline`; return the policy, and whether it reached the stop value."""
    if env_setting is not None:
        env_fn, _, evaluator_cfgs = env_setting
        env_setting = (env_fn, evaluator_cfgs, evaluator_cfgs)
    options = (input_cfg, seed, env_setting, model, overrides)
    setup = prepare_run(*options, pipeline="serial_pipeline_offline", limits={"max_train_iter": max_train_iter})
    dataset = read_alike(setup.cfg, setup.spec)
    feed = partial(create_feed, dataset)
    with (
        policy_process(setup, get_rank(), "policy") as policy,
        Experiment(setup, policy, feed, axis="train_iter", callbacks=callbacks) as experiment,
    ):
        while not experiment.finished():
            if experiment.evaluate():
                break
            experiment.learn(experiment.batches())
    return experiment.policy, experiment.stop_reason == "stop_value"


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

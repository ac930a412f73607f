"""Training from Python: `ding_lite.train(config)` trains a config and returns the run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from ding_lite.config import compile_config, replace_values
from ding_lite.config.schema import TOP_KEYS
from ding_lite.policy import Policy
from ding_lite.results.run import Run, read_run
from ding_lite.run.callbacks import Callback
from ding_lite.run.pipelines import limits_for, pipeline_for, whole_limit
from ding_lite.trained.agent import Agent, load
from ding_lite.utils.checkpoint.run_directory import last_exp_dir, opened_exp_dirs, rename_for_seed
from ding_lite.utils.ranks.collectives import all_gather_object, get_world_size
from ding_lite.utils.registry import ConfigError, closest, load_extra

Config = str | Path | tuple[dict[str, Any], dict[str, Any]]


class TrainedRun:
    """A run that has ended; `policy` is as the last iteration left it, None if the run was interrupted."""

    def __init__(self, directory: str, policy: Policy | None = None) -> None:
        self.directory, self.policy = directory, policy

    @cached_property
    def _run(self) -> Run:
        return read_run(self.directory)

    @property
    def result(self) -> Mapping[str, Any]:
        """Content of result.json: counts, returns, seconds."""
        return self._run.result

    @property
    def stop_reason(self) -> str:
        """Why it ended: 'stop_value', 'interrupted', 'callback', or the limit that it reached."""
        return str(self.result["stop_reason"])

    @property
    def best_return(self) -> float:
        """Mean return of the best evaluation."""
        return float(self.result["eval_return_best"])

    @cached_property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """The records of metrics.jsonl as columns of equal length, NaN where a record lacks a figure.

        The keys are `envstep`, `train_iter`, `seconds`, `time`, and the names of figures, such as `eval/return_mean`. A
        data frame of them is `pandas.DataFrame(run.metrics)`.
        """
        records = self._run.records
        names = dict.fromkeys(name for record in records for name in record)
        return {name: np.array([record.get(name) for record in records], np.float64) for name in names}

    @cached_property
    def agent(self) -> Agent:
        """The best checkpoint as an agent, see `ding_lite.load`."""
        return load(self.directory)

    def __repr__(self) -> str:
        return f"TrainedRun('{self.directory}': {self.stop_reason}, best return {self.best_return:.2f})"


@overload
def train(
    config: Config,
    seed: Sequence[int],
    *,
    together: Literal[True],
    max_env_step: int | None = None,
    max_train_iter: int | None = None,
    callbacks: Sequence[Callback] = (),
    **overrides: Any,
) -> list[TrainedRun]: ...


@overload
def train(
    config: Config,
    seed: int | np.integer[Any] | None = None,
    *,
    together: Literal[False] = False,
    max_env_step: int | None = None,
    max_train_iter: int | None = None,
    callbacks: Sequence[Callback] = (),
    **overrides: Any,
) -> TrainedRun: ...


def train(
    config: Config,
    seed: Any = None,
    *,
    together: bool = False,
    max_env_step: int | None = None,
    max_train_iter: int | None = None,
    callbacks: Sequence[Callback] = (),
    **overrides: Any,
) -> TrainedRun | list[TrainedRun]:
    """Train a config with the loop that its policy's class names; with several seeds, a run for each.

    Ctrl-C, or the stop button of a notebook, ends the run after the current iteration and saves a checkpoint; the
    interrupted run is returned. To train on several processes, start the script with a launcher and call this inside
    `DDPContext`.

    Args:
        config: path of a Python file with `main_config` and `create_config`, or this pair.
        seed: used instead of the config's; with `together`, a list of seeds.
        together: train a run for each seed in step, their networks computed at once; the directory of each ends with
            `_seedN`. The runs are returned in the order of the seeds. An error of one of them is raised after all have
            ended.
        max_env_step: the run ends after this many env steps of all ranks; None: no limit.
        max_train_iter: the run ends after this many learner iterations; None: no limit.
        callbacks: are called at the events of the run, see `Callback`; each of several runs gets copies.
        **overrides: values that replace the config's, as nested dicts such as `policy=dict(learn=dict(batch_size=32))`,
            or by dotted keys in `**{"policy.learn.batch_size": 32}`.

    Raises:
        ConfigError: a mistake in the config, in a limit or in an override; nothing has started.
    """
    given = {"max_env_step": max_env_step, "max_train_iter": max_train_iter}
    for name, value in overrides.items():
        hint = closest(name, (*given, "callbacks"))  # without one, the config says what it does not know
        if hint and "." not in name and name not in TOP_KEYS and not isinstance(value, Mapping):
            raise ConfigError(f"Unknown argument '{name}'.{hint}")
    if together != isinstance(seed, list | tuple | range | np.ndarray):
        raise ConfigError(f"expected a list of seeds with together=True, or else one seed, got seed={seed!r}.")
    pair = replace_values(config, overrides)
    pipeline = pipeline_for(pair)
    limits = {name: whole_limit(name, limit) for name, limit in given.items() if limit is not None}
    limits = limits_for(pipeline, limits)
    if together:
        return _train_together(pipeline, pair, list(seed), callbacks, limits)
    opened = opened_exp_dirs()
    try:
        policy = pipeline(pair, int(seed) if isinstance(seed, np.integer) else seed, callbacks=callbacks, **limits)
    except SystemExit:
        if get_world_size() > 1 or opened_exp_dirs() == opened:
            raise
        run = TrainedRun(last_exp_dir())
        if run.result.get("stop_reason") != "interrupted":
            raise
        return run
    all_gather_object(None)  # no rank reads what rank 0 is still writing
    return TrainedRun(last_exp_dir(), policy)


def _train_together(
    pipeline: Callable[..., Policy], pair: Any, seeds: list[int], own: Sequence[Callback], limits: Mapping[str, int]
) -> list[TrainedRun]:
    """Train a run for each seed, and return the runs; `own` are the user's callbacks."""
    load_extra("greenlet", "together", "together=True")
    from ding_lite.together.runs import train_together  # noqa: PLC0415  (it needs the extra)

    name = compile_config(pair).exp_name  # also finds mistakes before anything starts

    def run(seed: int, callbacks: Sequence[Callback]) -> Policy:
        overrides = [f"exp_name={rename_for_seed(name, seed, always=True)}"]
        return pipeline(pair, seed, overrides=overrides, callbacks=[*copy.deepcopy(own), *callbacks], **limits)

    states = train_together({f"seed {seed}": partial(run, int(seed)) for seed in seeds})
    runs = [TrainedRun(state.directory, state.policy) for state in states]
    for state, trained in zip(states, runs, strict=True):
        interrupted = isinstance(state.error, SystemExit) and trained.result.get("stop_reason") == "interrupted"
        if state.error is not None and not interrupted:
            raise state.error
    all_gather_object(None)  # no rank reads what rank 0 is still writing
    return runs

"""The pipeline that learns from a data set, under two names, and DI-engine's names for runs with an expert's data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from torch import nn

from ding_lite.config import read_pair
from ding_lite.envs.actions import ActionUnits
from ding_lite.offline.dataset import OfflineDataset, read_dataset
from ding_lite.offline.demo_data import collect_demo_data
from ding_lite.offline.loader import OfflineLoader
from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback
from ding_lite.run.experiment import Experiment, NoEnvironments, Source
from ding_lite.run.serial_entry import serial_pipeline
from ding_lite.run.setup import RunSetup, policy_process, prepare_run
from ding_lite.torch_utils.data import Batch
from ding_lite.utils.key import get_key, show
from ding_lite.utils.ranks.collectives import allreduce_data, get_rank, get_world_size, on_every_rank
from ding_lite.utils.ranks.interrupt import InterruptGuard
from ding_lite.utils.ranks.meeting import describe_values
from ding_lite.utils.registry import ConfigError

EXPERT_STEPS = 10_000  # env steps that an expert's policy plays, if its config is given
AGREE_PERIOD = 0.5  # seconds between two collectives in which the ranks agree whether to stop


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

    `policy.collect.data_path` names the data set. Each rank learns from its own part, which is drawn anew in every
    epoch. Environments are built only for evaluation, so `env_setting` needs no collector_cfgs. The arguments, the
    return value and the errors are those of `serial_pipeline`.
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
    limits, pipeline = {"max_train_iter": max_train_iter}, "serial_pipeline_offline"
    setup = prepare_run(input_cfg, seed, env_setting, model, overrides, pipeline=pipeline, limits=limits)
    dataset = read_alike(setup)
    feed = partial(create_feed, dataset)
    with (
        policy_process(setup, get_rank(), "policy") as policy,
        Experiment(setup, policy, feed, callbacks=callbacks) as experiment,
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
    """Imitate the actions of a data set; `serial_pipeline_offline` with DI-engine's arguments.

    `data_path` is used instead of the config's `policy.collect.data_path`, and `max_iter` is `max_train_iter`.

    Returns:
        The trained policy, and whether it converged: reached `env.stop_value`. Errors are `serial_pipeline_offline`'s.
    """
    data = [] if data_path is None else [f"policy.collect.data_path={data_path}"]
    return learn_offline(input_cfg, seed, None, model, max_iter, [*overrides, *data], callbacks)


def _pipeline_with_expert(name: str, summary: str, buffer: str) -> Callable[..., Policy]:
    """Return `serial_pipeline` with a replay buffer of this type, with a name and the arguments of DI-engine's."""

    def pipeline(
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
        path = record_expert(input_cfg, expert, seed, env_setting, expert_model)
        given = [*overrides, *with_buffer({"type": buffer, "data_path": path})]
        return serial_pipeline(
            input_cfg, seed, env_setting, model, max_train_iter, max_env_step, overrides=given, callbacks=callbacks
        )

    pipeline.__name__ = pipeline.__qualname__ = name
    pipeline.__doc__ = f"""{summary}

    `expert` is the expert's data set, used instead of the config's `policy.other.replay_buffer.data_path`; or as in
    DI-engine the expert's config, itself or the path of its Python file. `EXPERT_STEPS` env steps of its policy are
    then recorded in `EXP_NAME_expert.npz`, with the weights of `expert_model`, of the checkpoint
    `policy.collect.model_path` of `input_cfg`, or of the expert's best checkpoint. The other arguments, the return
    value and the errors are those of `serial_pipeline`.
    """
    return pipeline


serial_pipeline_sqil = _pipeline_with_expert(
    "serial_pipeline_sqil", "Train with the replay buffer 'sqil', see `SQILReplayBuffer`.", "sqil"
)
serial_pipeline_dqfd = _pipeline_with_expert(
    "serial_pipeline_dqfd",
    "Train with the replay buffer 'demonstrations', see `DemonstrationReplayBuffer`.",
    "demonstrations",
)
serial_pipeline_r2d3 = _pipeline_with_expert(
    "serial_pipeline_r2d3",
    "Train with the replay buffer 'demonstration_sequences', see `DemonstrationSequenceBuffer`.",
    "demonstration_sequences",
)
serial_pipeline_bco = _pipeline_with_expert(
    "serial_pipeline_bco",
    "Train the policy 'bco' with the replay buffer 'observations', see `BCOPolicy`.",
    "observations",
)


def record_expert(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    expert: str | tuple[dict[str, Any], dict[str, Any]] | None,
    seed: int | None,
    env_setting: Sequence[Any] | None,
    expert_model: nn.Module | None,
) -> str | None:
    """Return the path of the data set that `expert` names, or of one that it plays; None if it is None."""
    if not isinstance(expert, str | tuple | list | None):
        raise ConfigError(f"expected the expert's data set or its config, got {show(expert)}.")
    if expert is None or (isinstance(expert, str) and not expert.endswith(".py")):
        return expert
    main, _ = read_pair(input_cfg)
    data_path = f"{main.get('exp_name', 'default')}_expert.npz"
    weights = None if expert_model is not None else get_key(main, "policy.collect.model_path")
    collect_demo_data(expert, seed, EXPERT_STEPS, data_path, env_setting, expert_model, state_dict_path=weights)
    return data_path


def with_buffer(options: dict[str, Any]) -> list[str]:
    """Return overrides that set options of the replay buffer, except those that are None."""
    return [f"policy.other.replay_buffer.{key}={value}" for key, value in options.items() if value is not None]


class BatchFeed(NoEnvironments):
    """Yields a rank's batches, epoch after epoch. An `Experiment` uses it as its collector.

    Attributes:
        epoch: number of completed passes over the data set.
        interrupted: whether any rank was asked to stop; the ranks agree on it at the end of each call of `batches`.
    """

    reason = "a run that learns from a data set collects from no environments: use run.evaluator.set_attr"

    def __init__(self, loader: OfflineLoader, interrupt: Callable[[], bool]) -> None:
        self._loader, self._interrupt = loader, interrupt
        self._rest: Iterator[dict[str, Any]] | None = None  # remaining batches of the current epoch
        self._until_agreed = 1  # batches until the next agreement, the same on all ranks
        self._begin, self._seconds, self._waited_before = 0.0, 0.0, 0.0

    @property
    def epoch(self) -> int:
        return self._loader.epoch

    def batches(self, due: Callable[[], bool]) -> Iterator[Batch]:
        """Yield batches until the epoch ends, `due` returns True, or the ranks have to agree whether to stop.

        All ranks leave the loop after the same batch. Which batch this is may depend on time, because it does not
        change the results.
        """
        if self._rest is None:
            self._rest = self._loader.epoch_batches()
        count, start = 0, time.perf_counter()
        self._begin = start
        for batch in self._rest:
            yield batch
            self._tick()
            count += 1
            if count == self._until_agreed or due():
                break
        else:
            self._rest = None
        total = allreduce_data({"interrupt": int(self._interrupt()), "seconds": time.perf_counter() - start})
        self.interrupted = total["interrupt"] > 0
        if count:
            pace = total["seconds"] / get_world_size() / count
            self._until_agreed = max(1, min(int(AGREE_PERIOD / max(pace, 1e-9)), 2 * self._until_agreed))

    def _tick(self) -> None:
        now = time.perf_counter()
        self._seconds, self._begin = self._seconds + now - self._begin, now

    def take_figures(self) -> dict[str, float]:
        """Return `epoch`, and `wait_share`: the share of time since the last call spent waiting for data."""
        self._tick()
        times = allreduce_data({"seconds": self._seconds, "waited": self._loader.waited - self._waited_before})
        self._seconds, self._waited_before = 0.0, self._loader.waited
        return {"epoch": self.epoch, "wait_share": times["waited"] / max(times["seconds"], 1e-9)}

    def state_dict(self) -> dict[str, Any]:
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loader.load_state_dict(state)

    def local_state_dict(self) -> dict[str, Any]:
        """Return an empty dict, because the shared state determines what each rank reads."""
        return {}

    def load_local_state_dict(self, state: dict[str, Any]) -> list[int]:
        return []


def create_feed(
    dataset: OfflineDataset, setup: RunSetup, policy: Policy, guard: InterruptGuard, stack: ExitStack
) -> Source:
    """Return a source that reads this rank's part of a data set, drawn anew in every epoch; `stack` closes it."""
    learn, world = setup.cfg.policy.learn, get_world_size()
    workers, share = learn.learner.dataloader.num_workers, len(dataset) // world
    policy.normalizer.fit(dataset.observations())
    loader = OfflineLoader(dataset, learn.batch_size, setup.cfg.seed, workers, policy.device)
    stack.callback(loader.close)
    feed = BatchFeed(loader, lambda: guard.requested)
    lines = {
        "data set": f"{setup.cfg.policy.collect.data_path}: {len(dataset):,} transitions"
        + f" ({dataset.left_out:,} steps with an unknown end are left out)" * bool(dataset.left_out)
        + f", {share:,} a rank; {workers} loader process(es) a rank",
        "batch": f"{learn.batch_size} a rank, {learn.batch_size * world} global, {learn.train_epoch} epochs",
        "environments": f"{setup.cfg.env.evaluator_env_num} evaluate",
    }
    return Source(
        feed,
        lines,
        total=min(learn.train_epoch * -(-share // learn.batch_size), setup.limits["max_train_iter"]),
        limits={"train_epoch": learn.train_epoch},
        counts=lambda: {"epoch": feed.epoch},
        figures=lambda: {f"data/{key}": value for key, value in feed.take_figures().items()},
    )


def read_alike(setup: RunSetup) -> OfflineDataset:
    """Read the data set on every rank; an error of one rank is raised on all. A collective call."""
    held: list[OfflineDataset] = []

    def read() -> str:
        held.append(_read(setup))
        return str(len(held[0]))

    sizes = on_every_rank(read)
    if len(set(sizes)) > 1:
        raise ConfigError(
            f"policy.collect.data_path '{setup.cfg.policy.collect.data_path}': the number of transitions is "
            f"{describe_values(sizes)}: give all ranks the same data set."
        )
    return held[0]


def _read(setup: RunSetup) -> OfflineDataset:
    cfg, policy, spec = setup.cfg, setup.cfg.policy, setup.spec
    dataset = read_dataset(
        policy.collect.data_path,
        policy.collect.data_type,
        setup.policy_cls.required_columns,
        nstep=policy.get("nstep", 1),
        gamma=policy.discount_factor,
        ignore_done=policy.learn.ignore_done,
        action_units=policy.collect.action_units,
        reward_norm=policy.collect.get("reward_norm", ""),
        length=policy.get("context_len"),
    )
    assert spec.env_action_space is not None
    units, layout = ActionUnits(spec.env_action_space, cfg.env.act_scale), cfg.env.image_layout
    dataset.fit(spec.observation_space, units, spec.env_observation_space, layout, policy.learn.ignore_done)
    return dataset

"""The parts of a run that learns from a data set: its batches stand where others have a collector."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, ClassVar

from easydict import EasyDict

from ding_lite.entry.experiment import Experiment
from ding_lite.entry.reporter import RunReporter
from ding_lite.envs import EnvSpec
from ding_lite.utils.dist.collectives import all_gather_object, allreduce_data
from ding_lite.utils.dist.ranks import get_rank, get_world_size
from ding_lite.utils.progress import Progress
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.worker.offline.dataset import OfflineDataset, read_dataset
from ding_lite.worker.offline.loader import OfflineLoader

AGREE_PERIOD = 0.5  # seconds between two questions to all ranks whether to end


class BatchSource:
    """A rank's batches, epoch after epoch, and what an `Experiment` wants to know of a collector.

    Attributes:
        envstep, episode_count: 0, nothing is played.
        epoch: passes over the data set that are done.
        interrupted: whether any rank was asked to end, as all ranks agreed after the last `batches`.
    """

    envstep = episode_count = 0

    def __init__(self, loader: OfflineLoader, interrupt: Callable[[], bool]) -> None:
        """Take this rank's loader; `interrupt` says whether this rank was asked to end."""
        self._loader, self._interrupt = loader, interrupt
        self._rest: Iterator[dict[str, Any]] | None = None  # of the epoch that has begun
        self._until_agreed = 1  # batches, the same on all ranks
        self._begin, self._seconds, self._waited_before = 0.0, 0.0, 0.0
        self.interrupted = False

    @property
    def epoch(self) -> int:
        return self._loader.epoch

    def batches(self, due: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        """Yield batches until the epoch ends, something else is `due`, or it is time that the ranks agree on ending.

        Where it stops has no effect on what is learned, so times may decide it; all ranks stop after the same batch.
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
        self._agree(count, time.perf_counter() - start)

    def _tick(self) -> None:
        now = time.perf_counter()
        self._seconds, self._begin = self._seconds + now - self._begin, now

    def _agree(self, count: int, seconds: float) -> None:
        total = allreduce_data({"interrupt": int(self._interrupt()), "seconds": seconds})
        self.interrupted = total["interrupt"] > 0
        if count:
            pace = total["seconds"] / get_world_size() / count
            self._until_agreed = max(1, min(int(AGREE_PERIOD / max(pace, 1e-9)), 2 * self._until_agreed))

    def take_times(self) -> dict[str, float]:
        """Return the `seconds` spent in `batches`, learning included, and in waiting for data, since the last time."""
        self._tick()
        times = {"seconds": self._seconds, "waited": self._loader.waited - self._waited_before}
        self._seconds, self._waited_before = 0.0, self._loader.waited
        return times

    def state_dict(self) -> dict[str, Any]:
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loader.load_state_dict(state)

    def local_state_dict(self) -> dict[str, Any]:
        """Return nothing: what each rank reads follows from what is the same on all."""
        return {}

    def load_local_state_dict(self, state: dict[str, Any]) -> list[int]:
        return []


class OfflineReporter(RunReporter):
    """What a run without playing says and leaves behind: everything goes by learner iterations."""

    axis: ClassVar[str] = "train_iter"

    def __init__(self, cfg: EasyDict, limits: dict[str, int], dataset: OfflineDataset) -> None:
        super().__init__(cfg, limits)
        self._num_samples = len(dataset)
        self._figures: dict[str, float] = {}

    def _create_progress(self, envstep: int, train_iter: int) -> Progress:
        learn = self._cfg.policy.learn
        iterations = learn.train_epoch * -(-(self._num_samples // get_world_size()) // learn.batch_size)
        words, total = ("learn", "iterations", "epoch"), min(iterations, self._limits["max_train_iter"])
        return Progress(total, get_rank() == 0, self._logger.info, train_iter, words)

    def _source_lines(self) -> dict[str, str]:
        cfg, world, learn = self._cfg, get_world_size(), self._cfg.policy.learn
        return {
            "data set": f"{cfg.policy.collect.data_path}: {self._num_samples:,} transitions, "
            f"{self._num_samples // world:,} a rank; {learn.learner.dataloader.num_workers} loader process(es) a rank",
            "batch": f"{learn.batch_size} a rank, {learn.batch_size * world} global, {learn.train_epoch} epochs",
            "environments": f"{cfg.env.evaluator_env_num} evaluate",
        }

    def learned(self, train_iter: int, epoch: int) -> None:
        """Show progress."""
        self._progress.update(train_iter, epoch, self._eval_info.get("return_mean"))

    def data(self, figures: dict[str, float]) -> None:
        """Keep figures of the data for the next record of the losses."""
        self._figures = {f"data/{key}": value for key, value in figures.items()}

    def _source_values(self) -> dict[str, float]:
        return self._figures

    def _moment(self, envstep: int, train_iter: int) -> str:
        return f"iteration {train_iter}"


class OfflineExperiment(Experiment):
    """An `Experiment` whose samples are a data set's; environments are for evaluation alone."""

    collector: BatchSource
    _record: OfflineReporter

    def _prepare(self) -> None:
        self._dataset = _read_alike(self.cfg, self._spec)
        del self._limits["max_env_step"]  # nothing is played

    def _create_record(self) -> RunReporter:
        return OfflineReporter(self.cfg, self._limits, self._dataset)

    def _create_collector(self, stack: ExitStack, builders: tuple[Any, Any]) -> BatchSource:
        learn = self.cfg.policy.learn
        workers = learn.learner.dataloader.num_workers
        loader = OfflineLoader(self._dataset, learn.batch_size, self.cfg.seed, workers, self.policy.device)
        stack.callback(loader.close)
        return BatchSource(loader, lambda: self._guard.requested)

    def finished(self) -> bool:
        """Return whether the run is over, for a reason that every rank sees alike."""
        if not super().finished() and self.collector.epoch >= self.cfg.policy.learn.train_epoch:
            self.stop_reason = "train_epoch"
        return bool(self.stop_reason)

    def batches(self) -> Iterator[dict[str, Any]]:
        """Return this rank's next batches, at most until something else is due; none where an epoch ends."""
        self._record.learned(self.learner.train_iter, self.collector.epoch)
        return self.collector.batches(self._due)

    def _due(self) -> bool:
        """Return whether something else than learning comes next."""
        train_iter, hook = self.learner.train_iter, self.cfg.policy.learn.learner.hook
        return (
            train_iter >= self._limits["max_train_iter"]
            or train_iter - self._saved_iter >= hook.save_ckpt_after_iter
            or self.evaluator.should_eval(train_iter)
        )

    def _on_log(self, values: dict[str, float]) -> None:
        times = allreduce_data(self.collector.take_times())
        share = times["waited"] / max(times["seconds"], 1e-9)
        self._record.data({"epoch": self.collector.epoch, "wait_share": share})
        super()._on_log(values)

    def _counts(self) -> dict[str, int]:
        return super()._counts() | {"epoch": self.collector.epoch}


def _read_alike(cfg: EasyDict, spec: EnvSpec) -> OfflineDataset:
    """Return the data set, read by every rank by itself; what is wrong for one of them is an error on all.

    Raises:
        ConfigError: it lacks something, does not fit the environment, is too small, or is not the same on all ranks.
    """
    dataset, error = None, None
    try:
        dataset = _read(cfg, spec)
    except ConfigError as own:
        error = own
    sizes = all_gather_object(str(error) if dataset is None else len(dataset))
    if error is not None:
        raise error
    for rank, size in enumerate(sizes):
        if isinstance(size, str):
            raise ConfigError(f"Rank {rank} cannot read the data set: {size}")
        if size != sizes[0]:
            raise ConfigError(
                f"policy.collect.data_path '{cfg.policy.collect.data_path}' has {sizes[0]} transitions for rank 0 and "
                f"{size} for rank {rank}: give all ranks the same data set."
            )
    assert dataset is not None
    return dataset


def _read(cfg: EasyDict, spec: EnvSpec) -> OfflineDataset:
    policy = cfg.policy
    columns = POLICY_REGISTRY.find(policy.type).required_columns  # type: ignore[attr-defined]
    sums = (policy.get("nstep", 1), policy.discount_factor)
    options = (cfg.env.act_scale, policy.learn.ignore_done)
    dataset = read_dataset(policy.collect.data_path, policy.collect.data_type, columns, *sums, *options)
    dataset.check_spaces(spec.observation_space, spec.action_space)
    share, batch_size = len(dataset) // get_world_size(), policy.learn.batch_size
    if batch_size > share:
        raise ConfigError(
            f"policy.learn.batch_size={batch_size} is more than a rank's part of the data set, {share} of "
            f"{len(dataset)} transitions: lower it, or record more."
        )
    return dataset

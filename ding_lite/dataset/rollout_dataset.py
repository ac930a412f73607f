"""A policy's collector as a data set for `torch.utils.data.DataLoader` and any training loop.

Each loader worker of each rank has its own environments, copy of the policy and random states. It shares the newest
published parameters and the counts of played steps with the training process, in memory that both map. Nothing here is
a collective. Shapes: M samples of a chunk, B of a batch, L steps of an episode.
"""

from __future__ import annotations

import copy
import fcntl
import importlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing import reduction
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from easydict import EasyDict
from torch import nn
from torch.utils.data import IterableDataset, get_worker_info

from ding_lite.config.config import compile_pair, read_pair
from ding_lite.config.shapes import fit_shapes
from ding_lite.di_engine.keys import SCHEDULERS
from ding_lite.envs import check_env, create_vector_env, derive_seeds
from ding_lite.policy import Policy, create_policy
from ding_lite.run.pipelines import refuse_options
from ding_lite.utils.disk import check_temporary_directory
from ding_lite.utils.key import get_key
from ding_lite.utils.ranks.collectives import alone, get_rank, get_world_size
from ding_lite.utils.registry import ConfigError, closest
from ding_lite.utils.schedule import find_schedules
from ding_lite.utils.seed import random_state, set_random_state, set_seed
from ding_lite.utils.tree import tree_leaves, tree_map
from ding_lite.worker import EpisodeCollector, SampleCollector
from ding_lite.worker.replay.stream import EpisodeStream, TransitionStream

UNITS = ("transition", "batch", "episode")
FIGURES = ("env_step", "episode", "return", "length")
BY_VALUE = 2**16  # bytes: larger tensors are passed to another process in shared memory
MAX_WORKERS = 1024  # loader workers of a rank
# Keys of `cfg.policy` that are followed between the collects of ding_lite's own training loop.
TRAINER_KEYS = ("learn.kl_early_stop", "learn.kl_adaptive", "learn.kl_learning_rate", "learn.target_kl")
EPISODE_ROWS = 32  # env steps in each environment between two reads of new parameters, if there is no n_sample


class Place(NamedTuple):
    """The process that plays: loader worker `worker` of `num_workers` of a rank."""

    rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    worker: int = 0
    num_workers: int = 1


class RolloutDataset(IterableDataset[Any]):
    """An endless stream of experience of the config's policy in its environments, new in every iteration.

    An item is a dict of tensors, nested if observations or actions are. `unit` selects its kind:

    * 'transition': one sample, without batch dimension: `DataLoader(dataset, batch_size=64)`.
    * 'batch': `policy.learn.batch_size` samples, `[B, ...]`; faster: `DataLoader(dataset, batch_size=None)`.
    * 'episode': one whole episode as collected, `[L, ...]`, and `last_obs`; also for `batch_size=None`.

    Samples have the keys that the policy's `_loss` reads. For an on-policy policy they are the batches of
    `Policy.batches`, advantages included. For other policies each step appears once, in time order, with `reward`
    summed over `policy.nstep` steps, the true `next_obs`, `done` and `value_gamma`. `version` is the number of the
    parameters that played.

    A collect uses the parameters that were published last when it begins. Seeds are derived from the config's seed, the
    rank, the worker and the number of the iteration. Create one data set in every rank.

    The other arguments are those of `serial_pipeline`. `collector_env_num` and `n_sample` are per loader worker.

    Attributes:
        cfg: the compiled config.
        policy: for its `model`, `loss` and `act`; it has no optimizer. All ranks begin with the same
            parameters. Not available in loader workers.

    Raises:
        ConfigError: a mistake in the config, or a policy whose samples depend on the state of the training loop.
    """

    def __init__(
        self,
        input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
        seed: int | None = None,
        unit: str = "transition",
        model: nn.Module | None = None,
        *,
        overrides: Sequence[str] = (),
    ) -> None:
        super().__init__()
        check_temporary_directory()
        compiled = compile_pair(read_pair(input_cfg), seed, model is not None, overrides)
        self.cfg = cfg = compiled.cfg
        self.unit = unit
        if "reward_model" in cfg:
            raise ConfigError("RolloutDataset does not use a reward model: leave create_config.reward_model out.")
        refuse_options(cfg, "RolloutDataset", "each loader worker sees only what it plays itself")
        _check(cfg.policy, compiled.policy_cls, unit)
        spec = check_env(cfg.env)
        fit_shapes(cfg, compiled.policy_cls, compiled.schema, spec)
        self._frame_stack, self._place = spec.frame_stack, Place()
        with _own_state(derive_seeds(cfg.seed, "model", n=1)[0], {}):
            self.policy = create_policy(cfg.policy, model, ("collect", "eval"))
        self._published = SharedModule(self.policy.model)
        self._counts = torch.zeros(MAX_WORKERS, len(FIGURES), dtype=torch.float64).share_memory_()
        self._iterations = torch.zeros(MAX_WORKERS, dtype=torch.int64).share_memory_()

    def publish(self, model: nn.Module | None = None) -> int:
        """Make all workers play with these parameters, by default those of `policy`, from their next collect on.

        A worker never sees a mix of two versions.

        Returns:
            The new version; the first one is 1.
        """
        return self._published.write(self.policy.model if model is None else model)

    @property
    def version(self) -> int:
        return self._published.version

    @property
    def envstep(self) -> int:
        """Env steps of all ranks so far, for schedules: this rank's env steps times the number of ranks."""
        return self._envstep(get_world_size())

    def figures(self) -> dict[str, float]:
        """Return sums over all collects of this rank's workers so far.

        `env_step`; the number of ended `episode`s; the sums of their `return` and `length`.
        """
        return dict(zip(FIGURES, self._counts.sum(0).tolist(), strict=True))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        place = self._find_place()
        path = place.rank, place.worker, int(self._iterations[place.worker])
        self._iterations[place.worker] += 1
        items = _within(derive_seeds(self.cfg.seed, *path, "policy", n=1)[0], self._play(place, path))
        return map(Sample, _unstacked(items) if self.unit == "transition" else items)

    def _play(self, place: Place, path: tuple[int, ...]) -> Iterator[dict[str, Any]]:
        """Yield the items of one worker: batches `[B, ...]`, chunks `[M, ...]`, or episodes; `path` seeds them."""
        cfg = copy.deepcopy(self.cfg)
        cfg.policy.cuda = cfg.policy.multi_gpu = False
        for name in (*cfg.env.import_names, *cfg.policy.import_names):  # a spawned worker has not compiled the config
            importlib.import_module(name)
        # Actor-critics estimate advantages with what `_init_learn` prepares.
        policy = create_policy(cfg.policy, self._published.create_copy(), ("learn", "collect"))
        collect, num_envs, version = cfg.policy.collect, cfg.env.collector_env_num, -1
        n_sample = collect.get("n_sample") or num_envs * (1 if "n_sample" in collect else EPISODE_ROWS)
        stream = self._create_stream(policy, n_sample // num_envs)
        seeds = derive_seeds(cfg.seed, *path, "collect", n=num_envs)
        processes = place.local_world_size * place.num_workers
        bounded = self.unit == "episode" or "n_episode" in collect
        with closing(create_vector_env(cfg.env, num_envs, cfg.seed, True, processes, bounded=bounded)) as env:
            if stream is None and "n_episode" in collect:
                collector: SampleCollector = EpisodeCollector(env, policy, collect.n_episode, seeds)
            else:
                collector = SampleCollector(env, policy, n_sample, seeds)
            while True:
                version = self._published.read(policy.model, version)
                block = self._collect(collector, policy, place)
                samples = block if self.unit == "episode" else policy.to_samples(block)
                if stream is not None:
                    yield from stream.take(samples | {"version": torch.full(samples["reward"].shape, version)})
                    continue
                for batch in policy.batches(samples):
                    yield batch | {"version": torch.full((len(next(tree_leaves(batch))),), version)}

    def _collect(self, collector: SampleCollector, policy: Policy, place: Place) -> dict[str, Any]:
        """Collect once in a worker, and count the steps."""
        collector.envstep = self._envstep(place.world_size)
        cfg = self.cfg.policy
        begins = self._counts[:, 0].sum() < cfg.get("random_collect_size", 0) * cfg.get("unroll_len", 1)
        at_random = bool(begins) and "logit" not in policy.stored_outputs
        block, figures = collector.collect(random=at_random)
        self._counts[place.worker] += torch.tensor([figures[key] for key in FIGURES], dtype=torch.float64)
        return block

    def _create_stream(self, policy: Policy, n_step: int) -> TransitionStream | EpisodeStream | None:
        """Return a stream that turns blocks of `n_step` rows into items; None if the policy does so, on-policy."""
        cfg, num_envs = self.cfg.policy, self.cfg.env.collector_env_num
        if self.unit == "episode":
            return EpisodeStream(num_envs)
        if policy.learns_from == "collect":
            return None
        size, nstep = cfg.learn.batch_size if self.unit == "batch" else None, cfg.get("nstep", 1)
        return TransitionStream(n_step, num_envs, nstep, cfg.discount_factor, self._frame_stack, batch_size=size)

    def _envstep(self, world_size: int) -> int:
        return int(self._counts[:, 0].sum()) * world_size

    def _find_place(self) -> Place:
        worker, place = get_worker_info(), self._place
        if worker is None or dist.is_initialized():  # a forked worker sees the group, a spawned one does not
            local_world_size = os.environ.get("LOCAL_WORLD_SIZE", get_world_size())  # some launchers do not set it
            place = Place(get_rank(), get_world_size(), int(local_world_size))
        if worker is None:
            return place
        if worker.num_workers > MAX_WORKERS:
            raise ConfigError(f"RolloutDataset: {worker.num_workers} loader workers, expected at most {MAX_WORKERS}.")
        return place._replace(worker=worker.id, num_workers=worker.num_workers)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"policy": None, "_place": self._find_place()}


class Sample(dict[str, Any]):
    """A dict of tensors; small ones are sent to another process by value, in one message.

    Sending a tensor in shared memory takes 0.15 ms, by value 10 us plus the copy.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpack, (tree_map(_pack, dict(self)),)


def _pack(leaf: torch.Tensor) -> Any:
    return leaf.numpy() if leaf.nbytes <= BY_VALUE and leaf.dtype != torch.bfloat16 else leaf


def _unpack(packed: dict[str, Any]) -> Sample:
    return Sample(tree_map(torch.as_tensor, packed))


@contextmanager
def _own_state(seed: int, state: dict[str, Any]) -> Iterator[None]:
    """Return a context manager with separate random states, in which this process counts as the only one.

    `state` is empty for the first context, which is seeded. At the end it holds the states for the next one.
    """
    outer = random_state()
    with alone():
        if state:
            set_random_state(state)
        else:
            set_seed(seed)
        try:
            yield
        finally:
            state.update(random_state())
            set_random_state(outer)


def _within(seed: int, items: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield items without end, which are created and finally closed with random states of their own."""
    state: dict[str, Any] = {}
    try:
        while True:
            with _own_state(seed, state):
                item = next(items)
            yield item
    finally:
        with _own_state(seed, state):
            items.close()  # type: ignore[attr-defined]  # it is a generator


def _unstacked(chunks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the samples of chunks `[M, ...]` one by one, without that dimension."""
    with closing(chunks):  # type: ignore[type-var]  # it is a generator
        for chunk in chunks:
            yield from _rows(chunk)


def _rows(tree: Any) -> Sequence[Any]:
    if isinstance(tree, dict):
        return [dict(zip(tree, row, strict=True)) for row in zip(*map(_rows, tree.values()), strict=True)]
    return tree.unbind()


def _check(policy: EasyDict, policy_cls: Any, unit: str) -> None:
    """Raise `ConfigError` if this policy does not allow items of this unit."""
    if unit not in UNITS:
        raise ConfigError(f"RolloutDataset: expected unit to be one of {UNITS}, got '{unit}'.{closest(unit, UNITS)}")
    for path, schedule in find_schedules(policy, policy_cls).items():
        if not (path.startswith("collect.") and schedule.by == "env_step"):
            names = [f"policy.{path}", *(key for key, (_, number) in SCHEDULERS.items() if number == f"policy.{path}")]
            raise ConfigError(
                f"{' or '.join(names)}: RolloutDataset follows schedules of policy.collect by 'env_step' only, because "
                "the training loop is not ding_lite's: give a number."
            )
    if unit == "episode":
        return
    if "unroll_len" in policy:
        raise ConfigError(f"RolloutDataset: '{policy.type}' learns from sequences of steps: use unit='episode'.")
    for path in TRAINER_KEYS:
        if value := get_key(policy, path):
            raise ConfigError(
                f"policy.{path}={value!r} has an effect only in ding_lite's training loop, not in RolloutDataset: "
                f"set it to {False if value is True else None}."
            )
    if policy.learn.get("value_norm", False):
        raise ConfigError(
            "policy.learn.value_norm=True normalises by statistics of all that was collected, but each loader worker "
            "sees only its own: set it to False."
        )


class SharedModule:
    """Holds the newest parameters and buffers of a module, with a version number, for forked or spawned processes.

    A kernel lock on an unnamed file prevents simultaneous reading and writing. The kernel releases the lock when a
    process is killed, and nothing remains in the file system.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = copy.deepcopy(module).cpu().share_memory()
        self._version = torch.zeros((), dtype=torch.int64).share_memory_()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as this lives)

    @property
    def version(self) -> int:
        return int(self._version)

    def write(self, module: nn.Module) -> int:
        """Store the tensors of a module with the same structure, on any device; return the new version.

        Raises:
            ValueError: the module has other tensors.
        """
        with self._locked():
            _copy_tensors(module, self._module)
            self._version += 1
            return self.version

    def read(self, module: nn.Module, version: int = -1) -> int:
        """Copy the stored tensors into a module with the same structure, and return the version that it holds now.

        If `version`, which it held before, is still the newest, nothing is copied.
        """
        if self.version == version:
            return version
        with self._locked():
            _copy_tensors(self._module, module)
            return self.version

    def create_copy(self) -> nn.Module:
        """Return a copy of the module in memory of this process alone."""
        module = copy.deepcopy(self._module)
        self.read(module)
        return module

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_file": reduction.DupFd(self._file.fileno())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"_file": os.fdopen(state["_file"].detach(), "w+b")})


@torch.no_grad()
def _copy_tensors(source: nn.Module, target: nn.Module) -> None:
    new, old = ([*module.parameters(), *module.buffers()] for module in (source, target))
    shapes, expected = ([tuple(tensor.shape) for tensor in tensors] for tensors in (new, old))
    if shapes != expected:
        raise ValueError(f"expected a module with tensors of shapes {expected}, got {shapes}")
    for tensor, value in zip(old, new, strict=True):
        tensor.copy_(value)

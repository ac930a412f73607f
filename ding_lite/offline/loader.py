"""Loads the batches of a data set for each rank, ahead of time and in worker processes.

A worker gathers a chunk of batches into memory that it shares with the training process, and sends only the number of
the slot. Sending a message takes as long as a small learning step, so one message delivers many batches. Chunks depend
only on seed, epoch and position. Each worker can therefore shuffle by itself, and a resumed run sees the same batches.

Workers are forked, so they inherit the data set without a copy, and shared memory that needs no name in a file system.
Forking is safe despite the threads of torch, gloo and the watchdog, because a worker uses nothing that these may have
locked: it copies rows with one thread and uses no collective, no CUDA and no file.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.util import Finalize
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from ding_lite.envs import derive_seeds
from ding_lite.offline.dataset import OfflineDataset
from ding_lite.offline.files import DatasetError
from ding_lite.utils.checkpoint.file import CheckpointError
from ding_lite.utils.ranks.collectives import get_rank, get_world_size
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.ranks.interrupt import SIGNALS, blocking_signals, end_with_parent
from ding_lite.utils.registry import UserError
from ding_lite.utils.tree import tree_leaves, tree_map

CHUNK_BYTES = 2**21  # size of a chunk: large enough to outweigh the message, small enough for the processor's cache
CHUNK_BATCHES = 64  # largest number of batches of a chunk
AHEAD = 4  # chunks that each worker may load ahead, because it may run late on a busy machine


class LoaderError(UserError, RuntimeError):
    """A worker process that loads data has died."""


class RankSampler(DistributedSampler[Any]):
    """The indices of torch's DistributedSampler as a tensor, because a list of a million takes a tenth of a second."""

    def order(self, epoch: int) -> Tensor:
        """Return this rank's indices of an epoch, shuffled."""
        shuffled = torch.randperm(len(self.dataset), generator=torch.Generator().manual_seed(self.seed + epoch))  # type: ignore[arg-type]
        return shuffled[self.rank : self.total_size : self.num_replicas]


class Task(NamedTuple):
    """A chunk to gather into a slot of the shared memory: positions `start` to `stop` of the indices of an epoch."""

    epoch: int
    start: int
    stop: int
    slot: int


def tasks(epoch: int, start: int, samples: int, size: int, slots: int) -> Iterator[Task]:
    """Yield tasks of at most `size` of an epoch's `samples` without end, from the position `start` of the first epoch.

    A slot is reused only after its chunk has been copied.
    """
    for number in itertools.count():
        stop = min(start + size, samples)
        yield Task(epoch, start, stop, number % slots)
        epoch, start = (epoch, stop) if stop < samples else (epoch + 1, 0)


class Chunks(Dataset[Any]):
    """The data set of a worker process, whose items are gathered chunks."""

    def __init__(self, dataset: OfflineDataset, sampler: RankSampler, slots: list[dict[str, Any]]) -> None:
        self._dataset, self._sampler, self._slots = dataset, sampler, slots
        self._epoch, self._order = -1, torch.empty(0)

    def __getitem__(self, task: Task) -> Task:
        if task.epoch != self._epoch:
            self._epoch, self._order = task.epoch, self._sampler.order(task.epoch)
        number = task.stop - task.start
        self._dataset.gather(
            self._order[task.start : task.stop], out=tree_map(lambda rows: rows[:number], self._slots[task.slot])
        )
        return task


class OfflineLoader:
    """Yields this rank's batches of a data set, epoch after epoch, without end.

    In every epoch the data set is shuffled anew, and the ranks see disjoint parts of it, each transition at most once.
    All ranks have the same number of batches of the same sizes. The last batch of an epoch may be smaller. If the
    number of transitions is not a multiple of the number of ranks, a remainder is left out, another one in each epoch.

    Args:
        dataset: the transitions, as `seed` the same on every rank.
        batch_size: transitions per batch and rank.
        seed: seed of the shuffling.
        num_workers: number of processes that load ahead; 0: this process gathers the batches.
        device: device of the batches.

    Attributes:
        batches_per_epoch: batches of this rank in an epoch.
        epoch, position: completed epochs, and batches taken in the current one.
        waited: seconds that training has waited for data.

    Raises:
        DatasetError: the data set is too small for one whole batch on every rank.
    """

    def __init__(
        self,
        dataset: OfflineDataset,
        batch_size: int,
        seed: int,
        num_workers: int = 1,
        device: torch.device | str = "cpu",
    ) -> None:
        ranks = get_world_size()
        if len(dataset) < batch_size * ranks:
            raise DatasetError(
                f"Data set '{dataset.source}' has {len(dataset)} transitions: expected at least {batch_size * ranks}, "
                f"a batch of {batch_size} for each of {ranks} processes. Set policy.learn.batch_size lower."
            )
        self._dataset, self._batch_size, self._device = dataset, batch_size, torch.device(device)
        self._num_workers, self._seed = num_workers, seed
        self._sampler = RankSampler(dataset, ranks, get_rank(), seed=seed, drop_last=True)
        self._samples = self._sampler.num_samples
        self.batches_per_epoch = -(-self._samples // batch_size)
        self.epoch, self.position, self.waited = 0, 0, 0.0
        self._batches: deque[dict[str, Any]] = deque()  # received, not yet taken
        self._stream: Iterator[Task] | None = None
        self._make_slots()

    def _make_slots(self) -> None:
        """Allocate memory that forked workers share, for all chunks that can be in flight and one being copied."""
        sample = self._dataset.gather(torch.zeros(self._batch_size, dtype=torch.int64))
        batch_bytes = sum(leaf.nbytes for leaf in tree_leaves(sample))
        self._chunk = min(max(CHUNK_BYTES // batch_bytes, 1), CHUNK_BATCHES, self.batches_per_epoch)

        def allocate(leaf: Tensor) -> Tensor:
            shape = (self._chunk * self._batch_size, *leaf.shape[1:])
            memory = mmap.mmap(-1, max(leaf.nbytes * self._chunk, 1))
            return torch.frombuffer(memory, dtype=leaf.dtype, count=math.prod(shape)).view(shape)

        self._slots = [tree_map(allocate, sample) for _ in range(AHEAD * self._num_workers + 1)]
        self._closing = torch.frombuffer(mmap.mmap(-1, 1), dtype=torch.uint8)
        self._release = Finalize(self, self._closing.fill_, (1,), exitpriority=10)  # before python ends its children

    def epoch_batches(self) -> Iterator[dict[str, Any]]:
        """Yield the remaining batches of the current epoch, then count the epoch as completed.

        A batch is a dict of `[B, ...]` tensors, which the caller may keep.

        Raises:
            LoaderError: a worker process was killed.
        """
        while self.position < self.batches_per_epoch:
            if not self._batches:
                start = time.perf_counter()
                self._batches.extend(self._receive())
                self.waited += time.perf_counter() - start
            self.position += 1
            yield self._batches.popleft()
        self.epoch, self.position = self.epoch + 1, 0

    def _receive(self) -> list[dict[str, Any]]:
        """Wait for the next chunk, copy it to the device, and return its batches."""
        try:
            if self._stream is None:
                self._stream = self._start()
            heartbeat("load data")
            task = next(self._stream)
        except RuntimeError as error:
            if not str(error).startswith("DataLoader worker"):
                raise
            raise LoaderError(
                f"{str(error).strip().rstrip('.')}: a process that loads data for rank {get_rank()} has died. If the "
                "system killed it because memory ran out, make policy.learn.batch_size smaller, or set "
                "policy.learn.learner.dataloader.num_workers=0."
            ) from error
        number = task.stop - task.start
        chunk = tree_map(lambda rows: rows[:number].to(self._device, copy=True), self._slots[task.slot])
        parts = tree_map(lambda rows: rows.split(self._batch_size), chunk)
        count = -(-number // self._batch_size)
        return [tree_map(lambda part: part[i], parts) for i in range(count)]  # noqa: B023 (called at once)

    def _start(self) -> Iterator[Task]:
        start, size = self.position * self._batch_size, self._chunk * self._batch_size
        loader = DataLoader(
            Chunks(self._dataset, self._sampler, self._slots),
            sampler=tasks(self.epoch, start, self._samples, size, len(self._slots)),
            batch_size=None,
            num_workers=self._num_workers,
            collate_fn=lambda task: task,
            prefetch_factor=AHEAD if self._num_workers else None,
            multiprocessing_context="fork" if self._num_workers else None,
            worker_init_fn=Guard(self._closing),
            generator=torch.Generator().manual_seed(derive_seeds(self._seed, get_rank(), "loader", n=1)[0]),
        )
        if threading.current_thread() is not threading.main_thread():
            return iter(loader)
        handler = signal.getsignal(signal.SIGCHLD)
        try:
            with blocking_signals():  # until the worker's guard has installed its handlers
                return iter(loader)
        finally:
            signal.signal(signal.SIGCHLD, handler)  # torch's would raise anywhere in training when a worker dies

    def close(self) -> None:
        """End the worker processes; a later batch starts them again."""
        self._batches.clear()
        if self._stream is not None:
            self._closing.fill_(1)
            # An error's traceback may hold the iterator, and torch has no public way to end its workers.
            getattr(self._stream, "_shutdown_workers", lambda: None)()
            self._stream = None
            self._closing.fill_(0)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "position": self.position, **self._layout()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was called: the same batches follow, dealt to any number of processes.

        Raises:
            CheckpointError: the state belongs to another data set, batch size of all processes together, or seed.
        """
        found = _comparable(state)
        for key, expected in _comparable(self._layout()).items():
            if found[key] != expected:
                raise CheckpointError(
                    f"The checkpoint's data loader has {key}={found[key]}, expected {expected}: resume with the "
                    "settings of the original run, or start a new run from the checkpoint's model."
                )
        self.close()
        self.epoch, self.position = state["epoch"], state["position"]

    def _layout(self) -> dict[str, int]:
        sizes = {"transitions": len(self._dataset), "batch_size": self._batch_size}
        return sizes | {"processes": self._sampler.num_replicas, "seed": self._seed}


class Guard:
    """Keeps a worker process alive exactly as long as the training process.

    Ctrl-C in a terminal, and the signals that a cluster sends before a time limit, reach workers too. The training
    process handles them, and needs its workers until it stops. SIGTERM therefore ends a worker only if the loader has
    been closed or Python is about to exit. The kernel kills a worker as soon as the training process has ended.

    Args:
        closing: a flag in shared memory, nonzero after the loader has been closed.
    """

    def __init__(self, closing: Tensor) -> None:
        self._closing, self._parent = closing, os.getpid()

    def __call__(self, worker_id: int) -> None:
        end_with_parent(signal.SIGKILL, self._parent)
        for number in SIGNALS:
            signal.signal(number, self._terminate if number == signal.SIGTERM else signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _terminate(self, signum: int, frame: FrameType | None) -> None:
        if self._closing.item():
            os._exit(0)


def _comparable(layout: dict[str, Any]) -> dict[str, Any]:
    """Return what determines the transitions of a step of all processes, which each take an equal share of them."""
    joined = {"batch_size * processes": layout["batch_size"] * layout["processes"]}
    return {"transitions": layout["transitions"], "seed": layout["seed"]} | joined

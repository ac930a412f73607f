"""The loader: what batches come, that they come again after a resume, and that its workers never outlive anything."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data.distributed import DistributedSampler

from ding_lite.offline.loader import RankSampler
from ding_lite.utils.checkpoint.file import CheckpointError
from ding_lite.worker import DatasetError, LoaderError, OfflineDataset, OfflineLoader


def numbered(size: int, width: int = 1) -> OfflineDataset:
    """Return a data set whose transitions are told apart by their action."""
    obs = np.zeros((size, width), np.float32)
    columns = {"obs": obs, "next_obs": obs, "action": np.arange(size), "reward": np.ones(size)}
    return OfflineDataset({**columns, "done": np.zeros(size, np.bool_)})


def actions(batches: Iterable[dict[str, Any]]) -> list[list[int]]:
    return [batch["action"].tolist() for batch in batches]


def joined(batches: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(batches))


def torchs_order(size: int, seed: int, epoch: int, ranks: int = 1, rank: int = 0) -> list[int]:
    """Return what torch's sampler says, whose sets need no more than a length."""
    dataset: Any = range(size)
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, ranks, rank, seed=seed, drop_last=True)
    sampler.set_epoch(epoch)
    return list(sampler)


Create = Callable[..., OfflineLoader]


@pytest.fixture
def create() -> Iterator[Create]:
    """Build loaders that are closed at the end."""
    loaders: list[OfflineLoader] = []

    def build(dataset: OfflineDataset, *args: Any, **kwargs: Any) -> OfflineLoader:
        loaders.append(OfflineLoader(dataset, *args, **kwargs))
        return loaders[-1]

    yield build
    for loader in loaders:
        loader.close()


def children() -> list[int]:
    """Return the forked children: others, such as python's resource tracker, have a command line of their own."""
    own = Path("/proc/self/cmdline").read_bytes()
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes() == own]


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize("size", [99, 100, 101, 102])
def test_a_ranks_indices_are_those_of_torchs_sampler(size: int) -> None:
    parts, dataset = [], numbered(size)
    for rank in range(3):
        parts.append(RankSampler(dataset, 3, rank, seed=5, drop_last=True).order(4).tolist())
        assert parts[-1] == torchs_order(size, 5, 4, 3, rank)
    assert len(set(joined(parts))) == 3 * (size // 3)


def test_batches_are_the_callers_to_keep(create: Create) -> None:
    dataset = numbered(1000)
    loader = create(dataset, 50, seed=0, num_workers=1)
    kept = [batch for _ in range(10) for batch in loader.epoch_batches()]  # many times round the shared memory
    for epoch in range(10):
        assert joined(actions(kept[epoch * 20 : epoch * 20 + 20])) == torchs_order(1000, 0, epoch)
    assert all(torch.equal(batch["obs"], dataset.gather(batch["action"])["obs"]) for batch in kept)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("taken", [0, 1, 70, 143, 150])
def test_the_same_batches_follow_after_a_resume(create: Create, taken: int, num_workers: int) -> None:
    def stream(loader: OfflineLoader, number: int) -> Iterator[list[int]]:
        while number > 0:
            for batch in loader.epoch_batches():
                yield batch["action"].tolist()
                number -= 1
                if number == 0:
                    return

    options = {"seed": 3, "num_workers": num_workers}
    whole = create(numbered(1000), 7, **options)
    list(stream(whole, taken))
    state = whole.state_dict()
    follow = list(stream(whole, 100))
    resumed = create(numbered(1000), 7, **options)
    list(stream(resumed, 5))  # what it did before does not matter
    resumed.load_state_dict(state)
    assert list(stream(resumed, 100)) == follow


def test_a_state_of_other_batches_is_refused(create: Create) -> None:
    state = create(numbered(100), 10, seed=0, num_workers=0).state_dict()
    for size, batch_size, said in (
        (90, 10, "transitions=100, expected 90"),
        (100, 5, r"batch_size \* processes=10, expected 5"),
    ):
        other = create(numbered(size), batch_size, seed=0, num_workers=0)
        with pytest.raises(CheckpointError, match=said):
            other.load_state_dict(state)


def test_too_few_transitions_for_a_batch() -> None:
    with pytest.raises(DatasetError, match="has 10 transitions: expected at least 11, a batch of 11 for each of 1"):
        OfflineLoader(numbered(10), 11, seed=0)


class Telling(OfflineDataset):
    """Puts into `action` what a worker is: its seeds and threads."""

    def gather(self, index_B: torch.Tensor, out: dict[str, Any] | None = None) -> dict[str, Any]:
        batch: dict[str, Any] = super().gather(index_B, out)
        told = (
            torch.initial_seed() % 2**31,
            int(np.random.get_state(legacy=False)["state"]["key"][1]),
            torch.get_num_threads(),
            os.getpid(),
        )
        batch["action"][:4] = torch.tensor(told)
        return batch


def test_each_worker_has_its_own_seed_and_one_thread_and_no_copy_of_the_set(create: Create) -> None:
    columns = numbered(400, width=40_000).columns  # 64 MB
    loader = create(Telling(columns), 8, seed=0, num_workers=2)
    before = torch.get_rng_state()
    told = {tuple(batch["action"][:4].tolist()) for batch in loader.epoch_batches()}
    assert torch.equal(torch.get_rng_state(), before)  # nothing is drawn from training's own generator
    assert len(told) == 2
    torch_seeds, numpy_seeds, threads, pids = (set(values) for values in zip(*told, strict=True))
    assert len(torch_seeds) == len(numpy_seeds) == 2
    assert threads == {1}
    for pid in pids:
        lines = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        assert sum(int(lines[key].split()[0]) for key in ("Private_Clean", "Private_Dirty")) < 40_000  # kB


def test_signals_meant_for_training_leave_workers_alone(create: Create) -> None:
    loader = create(numbered(10_000), 4, seed=0, num_workers=2)
    stream = loader.epoch_batches()
    next(stream)
    workers = children()
    assert len(workers) == 2
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM):  # as Ctrl-C or a cluster sends them to all
        for pid in workers:
            os.kill(pid, number)
    assert len(list(stream)) == 2499
    assert children() == workers
    loader.close()
    assert children() == []


def test_a_killed_worker_is_one_clear_error(create: Create) -> None:
    previous = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # another test may have set torch's
    loader = create(numbered(100_000), 4, seed=0, num_workers=1)
    stream = loader.epoch_batches()
    next(stream)
    os.kill(children()[0], signal.SIGKILL)
    with pytest.raises(LoaderError, match=r"DataLoader worker \(pid.*a process that loads data for rank 0 has died"):
        list(stream)
    loader.close()
    assert children() == []
    signal.signal(signal.SIGCHLD, previous)


def test_an_error_in_a_worker_reaches_training(create: Create) -> None:
    class Broken(OfflineDataset):
        def gather(self, index_B: torch.Tensor, out: dict[str, Any] | None = None) -> dict[str, Any]:
            if out is not None:
                raise OSError("the disk is gone")
            return super().gather(index_B)

    loader = create(Broken(numbered(100).columns), 4, seed=0, num_workers=1)
    with pytest.raises(OSError, match="the disk is gone"):
        next(loader.epoch_batches())


def test_a_loader_that_is_forgotten_ends_its_workers() -> None:
    loader = OfflineLoader(numbered(1000), 4, seed=0, num_workers=2)
    next(loader.epoch_batches())
    assert len(children()) == 2
    del loader
    assert wait_until(lambda: children() == [])

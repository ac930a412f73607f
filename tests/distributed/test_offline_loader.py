"""Real processes that load a data set: what each sees, and that no worker process is left."""

from __future__ import annotations

import itertools
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ding_lite.utils import DDPContext, InterruptGuard
from ding_lite.worker import OfflineDataset, OfflineLoader
from tests.distributed.launcher import finish, say, start_forked
from tests.distributed.on_ranks import call_on_ranks
from tests.survival.common import wait_until

ME = ["-m", "tests.distributed.call", __name__]
BATCH_SIZE = 8


def numbered(size: int) -> OfflineDataset:
    obs = np.zeros((size, 2))
    columns = {"obs": obs, "next_obs": obs, "action": np.arange(size), "reward": np.ones(size)}
    return OfflineDataset({**columns, "done": np.zeros(size, np.bool_)})


def go_on(ending: str) -> None:
    """Take batches from two worker processes, and end in a way."""
    loader = OfflineLoader(numbered(10_000), BATCH_SIZE, seed=1, num_workers=2)
    with DDPContext(timeout=30), InterruptGuard() as guard:
        next(loader.epoch_batches())
        say(f"workers {Path(f'/proc/self/task/{os.getpid()}/children').read_text()}")
        if ending == "raises":
            raise ValueError("boom")
        for _ in range(10**9 if ending == "waits" else 1):
            for _ in loader.epoch_batches():
                time.sleep(0.001)
                if guard.requested:
                    say("interrupted, and still loading")
                    list(loader.epoch_batches())
                    return


def wait_for_the_end(pids: list[int], seconds: float = 10.0) -> None:
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), None, seconds)


def rest(state: dict[str, Any], batch_size: int) -> list[list[int]]:
    """Return the batches of this rank that follow in an epoch, and those of the next epoch."""
    loader = OfflineLoader(numbered(1200), batch_size, seed=3, num_workers=0)
    loader.load_state_dict(state)
    return [batch["action"].tolist() for _ in range(2) for batch in loader.epoch_batches()]


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_the_place_in_an_epoch_is_dealt_to_another_number_of_ranks(ranks: int) -> None:
    loader = OfflineLoader(numbered(1200), 24, seed=3, num_workers=0)
    assert len(list(itertools.islice(loader.epoch_batches(), 10))) == 10
    state = loader.state_dict()
    follow = rest(state, 24)
    assert len(follow) == 40 + 50  # 1200 / 24 batches in an epoch
    parts = call_on_ranks(rest, state, 24 // ranks, nproc=ranks)
    assert [sorted(itertools.chain(*batches)) for batches in zip(*parts, strict=True)] == list(map(sorted, follow))


def test_no_worker_is_left_however_training_ends() -> None:
    endings = {"ends": "ends", "raises": "raises", "killed": "waits", "interrupted": "waits"}
    runs = {name: start_forked([*ME, "go_on", how]) for name, how in endings.items()}
    workers: dict[str, list[int]] = {}
    for name, run in runs.items():
        workers[name] = [int(pid) for pid in run.stdout.readline().split()[1:]]
        assert len(workers[name]) == 2
    runs["killed"].send_signal(signal.SIGKILL)
    wait_for_the_end(workers["killed"], 3.0)  # at once, not when torch's workers look, every five seconds
    os.killpg(runs["interrupted"].pid, signal.SIGTERM)  # as a cluster does: workers get it too
    results = {name: finish(run, timeout=60) for name, run in runs.items()}
    assert {name: result.returncode for name, result in results.items()} == {
        "ends": 0,
        "raises": 1,
        "killed": -signal.SIGKILL,
        "interrupted": 0,
    }
    assert results["interrupted"].stdout == "interrupted, and still loading\n"
    assert results["ends"].stderr == ""
    for name in endings:
        wait_for_the_end(workers[name])

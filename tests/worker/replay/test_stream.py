"""Every step is handed out once, with what truly followed it, and every episode whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.worker import SampleCollector
from ding_lite.worker.replay.stream import EpisodeStream, TransitionStream
from tests.worker.games import REWARD, CountingGame
from tests.worker.test_collector import collector_of

GAMMA = 0.5


def joined(batches: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}


def transitions(collector: SampleCollector, n_step: int, collects: int, **options: Any) -> dict[str, torch.Tensor]:
    stream = TransitionStream(n_step, 2, gamma=GAMMA, **options)
    return joined([batch for _ in range(collects) for batch in stream.take(collector.collect()[0])])


@pytest.mark.parametrize("nstep", [1, 3])
@pytest.mark.parametrize("n_step", [1, 2, 5])
def test_each_step_once_with_its_n_step_sum_and_true_successor(nstep: int, n_step: int) -> None:
    lengths = {100: 4, 200: 6}  # by the environment's seed, whose episodes have the seeds 100, 101, ...
    games = [CountingGame(4, "terminated"), CountingGame(6, "truncated")]
    collector, _ = collector_of(*games, n_sample=2 * n_step)
    got = transitions(collector, n_step, 24 // n_step, nstep=nstep)
    starts = [tuple(map(int, row)) for row in got["obs"].tolist()]
    rows = 24 // n_step * n_step - nstep  # the newest wait for what follows them
    assert sorted(starts) == sorted((s + t // L, t % L) for s, L in lengths.items() for t in range(rows))
    for b, (seed, step) in enumerate(starts):
        length = lengths[seed // 100 * 100]
        summed = min(nstep, length - step)
        assert got["reward"][b] == REWARD * sum(GAMMA**k for k in range(summed))
        assert got["value_gamma"][b] == GAMMA**summed
        assert got["done"][b].item() == (seed < 200 and step + summed == length)
        assert got["next_obs"][b].tolist() == [seed, step + summed]


def test_stacks_are_those_that_the_policy_saw() -> None:
    collector, seen = collector_of(CountingGame(5, "truncated"), CountingGame(7), n_sample=2 * 3, frame_stack=3)
    got = transitions(collector, 3, 8, frame_stack=3)
    played = np.stack(seen.observations)[:23].reshape(-1, 3 * 2)  # 24 rows, the last of which waits
    np.testing.assert_array_equal(got["obs"], played)
    age = got["obs"][:, -1]  # of each pair, the second number is the age
    assert torch.equal(got["next_obs"][:, -1], age + 1)
    assert torch.equal(got["next_obs"][:, -3], age)


def test_batches_are_whole_and_lose_nothing() -> None:
    runs = [collector_of(CountingGame(4), CountingGame(6), n_sample=2 * 3)[0] for _ in range(2)]
    chunks = transitions(runs[0], 3, 10)
    stream = TransitionStream(3, 2, gamma=GAMMA, batch_size=5)
    batches = [batch for _ in range(10) for batch in stream.take(runs[1].collect()[0])]
    assert {len(batch["reward"]) for batch in batches} == {5}
    assert len(batches) == (30 - 1) * 2 // 5
    for key, value in joined(batches).items():
        assert torch.equal(value, chunks[key][: len(value)]), key


def test_episodes_are_whole_in_the_order_of_their_ends_and_keep_what_they_hold() -> None:
    collector, _ = collector_of(CountingGame(3), CountingGame(7, "truncated"), n_sample=2 * 2)
    stream, episodes = EpisodeStream(2), []
    for number in range(11):  # 22 rows
        block = collector.collect()[0]
        episodes += stream.take(block | {"version": torch.full((2, 2), number)})
    # the first game's end in rows 2, 5, 8, 11, 14, 17, 20, the second's in rows 6, 13, 20
    order = [100, 101, 200, 102, 103, 201, 104, 105, 106, 202]
    assert [int(episode["obs"][0, 0]) for episode in episodes] == order
    for episode in episodes:
        seed = int(episode["obs"][0, 0])
        length = 3 if seed < 200 else 7
        assert episode["obs"].tolist() == [[seed, t] for t in range(length)]
        assert episode["last_obs"].tolist() == [seed, length]
        assert episode["traj_flag"].tolist() == [False] * (length - 1) + [True]
        assert bool(episode["done"][-1]) == (seed < 200)
        first_row = (seed % 100) * length
        assert episode["version"].tolist() == [(first_row + t) // 2 for t in range(length)]

"""Sequences must be what was played, row after row: by hand on small games, and against a naive record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.worker import SampleCollector, SequenceReplayBuffer
from tests.worker.games import CountingGame, NestedGame, game_env
from tests.worker.replay.test_ring import History


def collector_of(*games: CountingGame) -> SampleCollector:
    """Return a collector with seeds 100, 200 ...; the policy's output has a nested `logit` of the step's number."""
    calls: list[int] = []

    def forward(obs: Any, **kwargs: Any) -> dict[str, Any]:
        calls.append(len(calls))
        number = torch.full((len(games), 1), float(calls[-1]))
        return {"action": torch.zeros(len(games), dtype=torch.int64), "logit": {"mu": number, "sigma": number + 0.5}}

    def process_transition(obs: Any, output: dict[str, Any], timestep: SimpleNamespace) -> dict[str, Any]:
        columns = {"obs": obs, "action": output["action"], "logit": output["logit"], "reward": timestep.reward}
        return columns | {"done": timestep.done, "traj_flag": timestep.traj_flag}

    mode = SimpleNamespace(
        forward=forward,
        process_transition=process_transition,
        get_train_sample=lambda block: block,
        get_collect_kwargs=lambda envstep: {},
        reset=lambda env_id=None: None,
    )
    seeds = [100 * (n + 1) for n in range(len(games))]
    return SampleCollector(game_env(*games), mode, len(games), seeds)


def filled(game: CountingGame, unroll_len: int, n_steps: tuple[int, ...]) -> dict[str, Any]:
    """Push blocks of so many steps of one game into a buffer of one sequence; return that sequence."""
    collector, buffer = collector_of(game), SequenceReplayBuffer(1, 1, unroll_len=unroll_len)
    for n_step in n_steps:
        buffer.push(collector.collect(n_step)[0])
    assert buffer.count() == 1
    return buffer.sample(1)


def test_the_newest_steps_are_a_sequence_as_soon_as_they_are_pushed() -> None:
    batch = filled(CountingGame(50), 4, (4,))
    assert batch["obs"].tolist() == [[[100, 0]], [[100, 1]], [[100, 2]], [[100, 3]]]  # [U, B, ...]
    assert batch["last_obs"].tolist() == [[100, 4]]
    assert batch["logit"]["sigma"].tolist() == [[[0.5]], [[1.5]], [[2.5]], [[3.5]]]
    assert tuple(batch["reward"].shape) == tuple(batch["done"].shape) == (4, 1)
    assert not {"final_obs", "final_index"} & set(batch)


def test_a_sequence_goes_through_a_truncation_inside_it() -> None:
    # Episodes of 3 steps; the ring of 4 rows and one holds steps 4 to 7: two of the second episode, two of the third.
    batch = filled(CountingGame(3, "truncated"), 4, (4, 4))
    assert batch["obs"][:, 0].tolist() == [[101, 1], [101, 2], [102, 0], [102, 1]]
    assert batch["logit"]["mu"].flatten().tolist() == [4, 5, 6, 7]
    assert batch["traj_flag"][:, 0].tolist() == [False, True, False, False]
    assert not batch["done"].any()
    assert batch["final_index"].tolist() == [1]  # u * B + b
    assert batch["final_obs"].tolist() == [[101, 3]]
    assert batch["last_obs"].tolist() == [[102, 2]]


def test_a_truncation_at_the_last_step_gives_the_true_last_observation() -> None:
    batch = filled(CountingGame(4, "truncated"), 4, (3, 1))
    assert batch["traj_flag"][:, 0].tolist() == [False, False, False, True]
    assert batch["last_obs"].tolist() == [[100, 4]]  # not the next episode's [101, 0]
    assert "final_index" not in batch


def test_an_end_inside_a_sequence_needs_no_last_observation() -> None:
    batch = filled(CountingGame(3), 4, (4,))
    assert batch["done"][:, 0].tolist() == batch["traj_flag"][:, 0].tolist() == [False, False, True, False]
    assert batch["obs"][:, 0].tolist() == [[100, 0], [100, 1], [100, 2], [101, 0]]
    assert batch["last_obs"].tolist() == [[101, 1]]
    assert "final_index" not in batch


def test_places_of_truncations_are_step_times_batch_plus_sequence() -> None:
    collector = collector_of(CountingGame(2, "truncated"), CountingGame(90))
    buffer = SequenceReplayBuffer(2, 2, unroll_len=5)
    buffer.push(collector.collect(10)[0])
    batch = buffer.sample(6)  # the one sequence of each environment, several times
    first = [b for b in range(6) if batch["obs"][0, b, 0] == 100]
    assert 0 < len(first) < 6
    assert batch["final_index"].tolist() == [u * 6 + b for u in (1, 3) for b in first]  # steps 2 and 4 of five
    assert batch["final_obs"].tolist() == [[seed, 2] for seed in (100, 101) for _ in first]


def test_nested_observations_keep_their_structure() -> None:
    batch = filled(NestedGame(3, "truncated"), 4, (4, 4))
    assert batch["obs"]["inner"]["step"].tolist() == [[[1]], [[2]], [[0]], [[1]]]
    assert batch["obs"]["seed"].flatten().tolist() == [101, 101, 102, 102]
    assert batch["final_obs"]["inner"]["step"].tolist() == [[3]]
    assert batch["last_obs"]["inner"]["step"].tolist() == [[2]]


def check_all(buffer: SequenceReplayBuffer, history: History, unroll_len: int, num_rows: int) -> set[int]:
    """Compare samples with the record; return the times of their first steps."""
    number, squeeze = 200, history.stack == 1
    batch, seen, finals = buffer.sample(number), set(), {}
    for b in range(number):
        row, n = divmod(int(batch["index"][b]), history.num_envs)
        time = max(range(row, len(history.steps), num_rows))  # the newest step that was written to this row
        seen.add(time)
        for u in range(unroll_len):
            step = history.steps[time + u][n]
            np.testing.assert_array_equal(batch["obs"][u, b], step["obs"][0] if squeeze else step["obs"])
            for key in ("action", "reward", "done", "traj_flag"):
                assert batch[key][u, b].item() == step[key]
            if step["traj_flag"] and not step["done"] and u < unroll_len - 1:
                finals[u * number + b] = step["following"]
        if not step["done"]:  # a terminal state's successor has no value
            following = step["following"]
            np.testing.assert_array_equal(batch["last_obs"][b], following[0] if squeeze else following)
    assert ("final_index" in batch) == bool(finals)
    if not finals:
        return seen
    assert batch["final_index"].tolist() == sorted(finals)
    expected = np.stack([finals[place] for place in sorted(finals)])
    np.testing.assert_array_equal(batch["final_obs"], expected[:, 0] if squeeze else expected)
    return seen


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("unroll_len", [2, 5, 7])
def test_samples_equal_a_naive_record_through_starts_ends_and_wrap_around(unroll_len: int, stack: int) -> None:
    history = History(num_envs=3, stack=stack)
    size, kept = 9, 3 * unroll_len  # sequences of all environments; rows
    buffer = SequenceReplayBuffer(size, 3, unroll_len=unroll_len, frame_stack=stack if stack > 1 else 0, seed=1)
    for n_step in (7, 1, 6, 3, 5, 6, 1, 1, 4, 3, 6, 2):  # ends before, at and after the ring's end
        buffer.push(history.play(n_step))
        seen = check_all(buffer, history, unroll_len, kept + stack)
        total = len(history.steps)
        # Stacks of the first steps need no earlier frames: until rows are overwritten, all that there are can be used.
        oldest = 0 if total < kept + stack else total - kept
        assert seen == set(range(oldest, total - unroll_len + 1))
        assert buffer.count() == 3 * len(seen)


def test_batches_come_one_by_one_and_differ() -> None:
    collector, buffer = collector_of(CountingGame(5)), SequenceReplayBuffer(4, 1, unroll_len=3)
    buffer.push(collector.collect(12)[0])
    batches = list(buffer.batches(4, number=5))
    assert [tuple(batch["obs"].shape) for batch in batches] == [(3, 4, 2)] * 5
    assert len({tuple(batch["index"].tolist()) for batch in batches}) > 1


def test_nothing_can_be_sampled_before_there_are_enough_steps() -> None:
    collector, buffer = collector_of(CountingGame(5)), SequenceReplayBuffer(4, 1, unroll_len=5)
    counts = []
    for _ in range(7):
        buffer.push(collector.collect(1)[0])
        counts.append(buffer.count())
    assert counts == [0, 0, 0, 0, 1, 2, 3]


def test_a_sequence_may_be_one_step() -> None:
    batch = filled(CountingGame(1, "truncated"), 1, (1,))
    assert (batch["obs"].tolist(), batch["last_obs"].tolist()) == ([[[100, 0]]], [[100, 1]])


def test_a_buffer_for_less_than_a_sequence_of_each_environment_says_so() -> None:
    with pytest.raises(ValueError, match="3 sequences cannot be kept of 4 environments"):
        SequenceReplayBuffer(3, 4, unroll_len=8)

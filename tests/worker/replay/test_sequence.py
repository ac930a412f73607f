"""Sequences must be what was played, row after row: by hand on small games, and against a naive record."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.worker import SampleCollector, SequenceReplayBuffer
from tests.worker.games import Acting, CountingGame, NestedGame, game_env
from tests.worker.replay.history import GAMMA, History, check_sequences


def collector_of(*games: CountingGame) -> SampleCollector:
    """Return a collector with seeds 100, 200 ...; the policy's output has a nested `logit` of the step's number."""
    calls: list[int] = []

    def forward(obs: Any, **kwargs: Any) -> dict[str, Any]:
        calls.append(len(calls))
        number = torch.full((len(games), 1), float(calls[-1]))
        return {"action": torch.zeros(len(games), dtype=torch.int64), "logit": {"mu": number, "sigma": number + 0.5}}

    seeds = [100 * (n + 1) for n in range(len(games))]
    return SampleCollector(game_env(*games), Acting(forward), len(games), seeds)


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


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize(
    ("unroll_len", "burnin_step", "nstep"), [(2, 0, 1), (5, 0, 1), (7, 0, 1), (4, 3, 1), (3, 2, 3)]
)
def test_samples_equal_a_naive_record_through_starts_ends_and_wrap_around(
    unroll_len: int, burnin_step: int, nstep: int, stack: int
) -> None:
    history = History(num_envs=3, stack=stack)
    span = burnin_step + unroll_len + nstep - 1
    size, kept = 9, 3 * unroll_len + span - unroll_len  # sequences of all environments; rows
    options = {"frame_stack": stack if stack > 1 else 0, "gamma": GAMMA, "seed": 1}
    buffer = SequenceReplayBuffer(size, 3, unroll_len, burnin_step=burnin_step, nstep=nstep, **options)
    for n_step in (7, 1, 6, 3, 5, 6, 1, 1, 4, 3, 6, 2):  # ends before, at and after the ring's end
        buffer.push(history.play(n_step))
        seen = {time for time, _ in check_sequences(buffer, history, nstep)}
        total = len(history.steps)
        # Stacks of the first steps need no earlier frames: until rows are overwritten, all that there are can be used.
        oldest = 0 if total < kept + stack else total - kept
        assert seen == set(range(oldest, total - span + 1))
        assert buffer.count() == 3 * len(seen)


def test_n_step_targets_of_a_sequence_by_hand() -> None:
    # Episodes of 4 steps, each worth 3, gamma 0.5, two steps: rows 0 to 3 of the first, 4 and 5 of the second.
    # Sums: 3 + 1.5, but 3 alone at the end. The values that follow are those of the successors of rows 1, 2, 3, 3, 5.
    collector, buffer = collector_of(CountingGame(4, "truncated")), SequenceReplayBuffer(1, 1, 5, nstep=2, gamma=0.5)
    buffer.push(collector.collect(6)[0])
    batch = buffer.sample(1)
    assert batch["obs"][:, 0, 1].tolist() == [0, 1, 2, 3, 0, 1]  # T = 5 + 2 - 1 rows
    assert batch["reward"][:, 0].tolist() == [4.5, 4.5, 4.5, 3.0, 4.5]  # L = 5
    assert batch["value_gamma"][:, 0].tolist() == [0.25, 0.25, 0.25, 0.5, 0.25]
    assert batch["last_step"][:, 0].tolist() == [1, 2, 3, 3, 5]
    assert batch["episode_start"][:, 0].tolist() == [True, False, False, False, True, False]
    # The successors: obs[1:] and last_obs, but final_obs where the trajectory was truncated inside.
    following = torch.cat([batch["obs"][1:], batch["last_obs"][None]])
    following.view(-1, 2)[batch["final_index"]] = batch["final_obs"]
    after = following.gather(0, batch["last_step"][..., None].expand(-1, -1, 2))
    assert after[:, 0].tolist() == [[100, 2], [100, 3], [100, 4], [100, 4], [101, 2]]


def test_the_recurrent_state_is_the_one_before_the_first_row() -> None:
    buffer, history = SequenceReplayBuffer(12, 3, 4, burnin_step=2), History(3, 1)
    number = torch.arange(16 * 3.0).view(16, 3)
    buffer.push(history.play(16) | {"prev_state": {"h": number[..., None], "c": {"inner": number}}})
    batch = buffer.sample(20)
    assert batch["prev_state"]["h"].shape == (20, 1)
    assert batch["prev_state"]["h"][:, 0].tolist() == batch["index"].tolist()  # the number is the place
    assert torch.equal(batch["prev_state"]["c"]["inner"], batch["prev_state"]["h"][:, 0])


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

"""Buffers of any parts give the samples that a list of whole transitions would have given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.run.setup import prepare_run
from ding_lite.utils.registry import BUFFER_REGISTRY, ConfigError
from ding_lite.utils.schedule import Scheduled
from ding_lite.worker import (
    PrioritizedReplayBuffer,
    ReplayBuffer,
    SequenceReplayBuffer,
    UniformReplayBuffer,
)
from ding_lite.worker.replay.buffer import GATHER_AT_ONCE
from tests.worker.replay.history import GAMMA, History, check_sequences, check_transitions

PUSHES = (5, 7, 1, 6, 9, 13, 20, 4, 3, 17)  # ends before, at and after the end of a ring of 20 rows


@pytest.mark.parametrize(
    ("nstep", "stack"), [(1, 4), (3, 1), *(pytest.param(*w, marks=pytest.mark.slow) for w in ((1, 1), (3, 4)))]
)
@pytest.mark.parametrize("kind", [UniformReplayBuffer, PrioritizedReplayBuffer])
def test_transitions_equal_a_naive_record_through_starts_ends_and_wrap_around(
    kind: Callable[..., ReplayBuffer], nstep: int, stack: int
) -> None:
    num_envs, num_rows = 3, 20
    history, frame_stack = History(num_envs, stack), stack if stack > 1 else 0
    buffer = kind(num_rows * num_envs, num_envs, nstep=nstep, gamma=GAMMA, frame_stack=frame_stack, seed=1)
    for n_step in PUSHES:
        buffer.push(history.play(n_step))
        seen = check_transitions(buffer, history, nstep)
        total = len(history.steps)
        oldest = max(0, total - num_rows) + (stack - 1 if total >= num_rows else 0)
        assert {time for time, _ in seen} <= set(range(oldest, total - nstep))
        assert buffer.count() == (total - nstep - oldest) * num_envs


def test_every_step_that_can_be_sampled_is_sampled_evenly() -> None:
    buffer = UniformReplayBuffer(20, 2, nstep=1, gamma=GAMMA, seed=0)
    buffer.push(History(num_envs=2, stack=1).play(10))
    counts = np.bincount(buffer.sample(18_000)["index"].numpy(), minlength=20)
    assert (counts[:18] > 850).all()  # 1,000 expected of each of 9 x 2 places, standard deviation 31
    assert (counts[18:] == 0).all()  # the newest row's successor is to come


def test_batches_that_are_gathered_together_are_those_of_one_large_batch() -> None:
    whole, cut = (UniformReplayBuffer(40, 2, seed=3) for _ in range(2))
    block = History(2, 1).play(15)
    for buffer in (whole, cut):
        buffer.push(block)
    batches = list(cut.batches(4, number=5))
    assert all(batch["obs"].shape == (4, 2, 2) for batch in batches)
    for key, value in whole.sample(20).items():
        assert torch.equal(torch.cat([batch[key] for batch in batches]), value), key


def test_as_many_batches_are_gathered_together_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = [UniformReplayBuffer(40, 2, seed=3) for _ in range(2)]
    block = History(2, 1).play(15)
    for buffer in buffers:
        buffer.push(block)
    few, one = buffers
    # An observation and the next one of 4 samples: 2 x 4 x obs_bytes, which fits twice into 2.5 times as much.
    monkeypatch.setitem(GATHER_AT_ONCE, "cpu", 20 * few.ring.obs_bytes())
    batches = list(few.batches(4, number=5))
    expected = [one.sample(size) for size in (8, 8, 4)]
    assert [len(batch["obs"]) for batch in batches] == [4] * 5
    for key in batches[0]:
        assert torch.equal(torch.cat([batch[key] for batch in batches]), torch.cat([batch[key] for batch in expected]))


def test_priorities_that_are_updated_between_two_batches_count_in_the_second() -> None:
    buffer = PrioritizedReplayBuffer(40, 1, alpha=1.0, seed=0)
    buffer.push(History(1, 1).play(11))
    batches = buffer.batches(50, 2)
    next(batches)
    buffer.update(torch.arange(10), torch.tensor([0.0] * 4 + [1e6] + [0.0] * 5))
    assert next(batches)["index"].unique().tolist() == [4]


@pytest.mark.parametrize("kind", [UniformReplayBuffer, PrioritizedReplayBuffer, SequenceReplayBuffer])
@pytest.mark.parametrize("stack", [1, 4])
def test_samples_go_up_to_where_a_resumed_run_gave_an_episode_up(kind: Callable[..., ReplayBuffer], stack: int) -> None:
    span = {"unroll_len": 5} if kind is SequenceReplayBuffer else {"nstep": 3}
    history = History(3, stack, seed=1)
    options: dict[str, Any] = {**span, "frame_stack": stack if stack > 1 else 0, "gamma": GAMMA, "seed": 1}
    buffer = kind(12 if kind is SequenceReplayBuffer else 60, 3, **options)
    check: Callable[[ReplayBuffer, History], set[tuple[int, int]]] = partial(check_transitions, nstep=3)
    check = check_sequences if kind is SequenceReplayBuffer else check
    count = -1
    for _ in range(6):
        buffer.push(history.play(7))
        buffer.truncate(torch.tensor([1]), history.cut(1))
        buffer.push(history.play(3))
        assert any(n == 1 for _, n in check(buffer, history))
        assert buffer.count() >= count  # no sample is lost by it
        count = buffer.count()


def test_a_buffer_too_small_to_sample_from_says_so() -> None:
    with pytest.raises(
        ConfigError, match="8 environments has 2 rows, too few rows to sample from: expected at least 4"
    ):
        UniformReplayBuffer(16, 8, nstep=3)
    with pytest.raises(ConfigError, match=r"4 environments has 7 rows, too few rows .* at least 9"):
        SequenceReplayBuffer(3, 4, unroll_len=8)


def test_a_buffer_of_sequences_is_refused_for_a_policy_that_learns_from_transitions() -> None:
    main = dict(policy=dict(other=dict(replay_buffer=dict(type="sequence"))))
    create = dict(env=dict(env_id="CartPole-v1"), policy=dict(type="dqn"))
    setup = prepare_run((main, create), seed=0)
    with pytest.raises(ConfigError, match=r"^policy\.other\.replay_buffer\.type='sequence' .* no key unroll_len,"):
        setup.create_replay_buffer(setup.create_policy())


@pytest.mark.parametrize("kind", [UniformReplayBuffer, PrioritizedReplayBuffer, SequenceReplayBuffer])
@pytest.mark.parametrize("nstep", [1, 3])
def test_a_discount_that_changes_is_that_of_the_moment_when_a_batch_is_drawn(
    kind: Callable[..., ReplayBuffer], nstep: int
) -> None:
    now, history = [0.5], History(num_envs=2, stack=1)
    span = {"unroll_len": 4} if kind is SequenceReplayBuffer else {}
    options: dict[str, Any] = {"nstep": nstep, "seed": 3, **span}
    buffer, others = kind(40, 2, gamma=Scheduled(0.5, lambda: now[0]), **options), []
    block = history.play(15)
    buffer.push(block)
    for gamma in (0.5, 0.75, 1.0):
        others.append(kind(40, 2, gamma=gamma, **options))
        others[-1].push(block)
    # Every other buffer draws three batches too, so that the draws of all are the same.
    expected = [[other.sample(8) for _ in range(3)][number] for number, other in enumerate(others)]
    drawn = buffer.batches(8, 3)
    for gamma, other in zip((0.5, 0.75, 1.0), expected, strict=True):
        now[0] = gamma
        batch = next(drawn)
        assert torch.equal(batch["index"], other["index"])
        assert torch.equal(batch["reward"], other["reward"])
        assert torch.equal(batch["value_gamma"], other["value_gamma"])
        assert gamma in batch["value_gamma"] or gamma**nstep in batch["value_gamma"]


def test_an_empty_buffer_says_that_there_is_nothing_to_sample() -> None:
    buffer = UniformReplayBuffer(20, 1)
    assert buffer.count() == 0
    with pytest.raises(ValueError, match="too few steps for a sample"):
        buffer.sample(1)
    buffer.push(History(1, 1).play(1))
    with pytest.raises(ValueError, match="too few steps for a sample"):
        buffer.sample(1)


@pytest.mark.parametrize("buffer_type", ["uniform", "prioritized", "sequence"])
def test_the_policys_keys_choose_the_view_of_every_registered_buffer(buffer_type: str) -> None:
    keys = {"unroll_len": 4, "burnin_step": 2, "nstep": 3}
    buffer = BUFFER_REGISTRY.find(buffer_type)(replay_buffer_size=12, num_envs=3, gamma=GAMMA, **keys)
    history = History(3, 1)
    for n_step in (9, 9, 9):
        buffer.push(history.play(n_step))
        seen = check_sequences(buffer, history, nstep=3)
    # 12 sequences of 4 steps in 3 environments are 16 rows, 2 + 2 for burn-in and n-step sums, and the row after
    assert seen <= {(time, n) for time in range(27 - 20, 27 - 8 + 1) for n in range(3)}
    assert buffer.count() == (27 - 8 + 1 - 7) * 3

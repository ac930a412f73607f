"""Steps of an episode that went wrong are never sampled, and all others are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.worker import PrioritizedReplayBuffer, SequenceReplayBuffer, UniformReplayBuffer
from tests.worker.replay.test_ring import GAMMA, History, check_all
from tests.worker.replay.test_sequence import check_all as check_all_sequences

NUM_ENVS, NUM_ROWS = 3, 24
PUSHES = (5, 7, 1, 6, 9, 13, 24, 4, 3, 17, 1, 1, 2, 8)  # ends before, at and after the ring's end


def make_buffer(kind: type[UniformReplayBuffer], span: int, stack: int) -> UniformReplayBuffer:
    """Return a buffer of `NUM_ROWS` rows whose samples are made of `span` rows."""
    frame_stack = stack if stack > 1 else 0
    if kind is SequenceReplayBuffer:  # one sequence an environment, and the rows that it keeps besides
        size = (NUM_ROWS - stack) // span * NUM_ENVS
        return SequenceReplayBuffer(size, NUM_ENVS, unroll_len=span, frame_stack=frame_stack, seed=1)
    return kind(NUM_ROWS * NUM_ENVS, NUM_ENVS, nstep=span, gamma=GAMMA, frame_stack=frame_stack, seed=1)


def free_starts(buffer: UniformReplayBuffer, history: History, span: int) -> set[tuple[int, int]]:
    """Return, from the record, the times and environments of all samples that hold valid steps alone."""
    total, num_rows = len(history.steps), buffer._num_rows
    is_sequence = isinstance(buffer, SequenceReplayBuffer)
    oldest = 0 if total < num_rows else total - num_rows + history.stack - (0 if is_sequence else 1)
    return {
        (time, n)
        for time in range(oldest, total - span + (1 if is_sequence else 0))
        for n in range(history.num_envs)
        if all(history.steps[time + k][n]["valid"] for k in range(span))
    }


def sampled_starts(buffer: UniformReplayBuffer, history: History, number: int = 1500) -> set[tuple[int, int]]:
    """Return the times and environments of samples."""
    rows = {divmod(int(place), history.num_envs) for place in buffer.sample(number)["index"]}
    total = len(history.steps)
    return {(max(range(row, total, buffer._num_rows)), n) for row, n in rows}


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize(
    ("kind", "span"),
    [
        (UniformReplayBuffer, 1),
        (UniformReplayBuffer, 3),
        (PrioritizedReplayBuffer, 1),
        (PrioritizedReplayBuffer, 3),
        (SequenceReplayBuffer, 2),
        (SequenceReplayBuffer, 5),
    ],
)
def test_samples_are_all_those_that_hold_valid_steps_alone(kind: Any, span: int, stack: int) -> None:
    history, buffer = History(NUM_ENVS, stack, seed=2, abnormal=0.06), make_buffer(kind, span, stack)
    few = 0
    for n_step in (min(n_step, buffer._num_rows) for n_step in PUSHES):
        buffer.push(history.play(n_step))
        expected = free_starts(buffer, history, span)
        assert buffer.count() == len(expected)
        few += len(expected) < buffer._num_ready() * NUM_ENVS
        if not expected:
            continue
        assert sampled_starts(buffer, history) == expected
        if isinstance(buffer, SequenceReplayBuffer):
            check_all_sequences(buffer, history, span, buffer._num_rows)
        else:
            check_all(buffer, history, span, NUM_ROWS, number=50)
    assert few > len(PUSHES) / 2  # that is what this is about


def test_new_priorities_do_not_bring_back_steps_that_are_not_valid() -> None:
    history, buffer = History(NUM_ENVS, 1, seed=5, abnormal=0.1), make_buffer(PrioritizedReplayBuffer, 1, 1)
    buffer.push(history.play(16))
    everywhere = torch.arange(16 * NUM_ENVS)
    buffer.update(everywhere, torch.full((len(everywhere),), 9.0))
    expected = free_starts(buffer, history, 1)
    assert 0 < len(expected) < 15 * NUM_ENVS
    assert sampled_starts(buffer, history) == expected


@pytest.mark.parametrize("kind", [UniformReplayBuffer, PrioritizedReplayBuffer])
def test_a_sample_of_the_few_valid_steps_among_very_many_comes_at_once(kind: Any) -> None:
    n_step = 20_000
    block = History(1, 1).play(1) | {"episode_step": torch.zeros(1, 1, dtype=torch.int32)}
    block = {key: value.expand(n_step, *value.shape[1:]) for key, value in block.items() if key[:5] != "final"}
    block["valid"] = torch.zeros(n_step, 1, dtype=torch.bool)
    block["valid"][[77, 4321]] = True
    buffer = kind(n_step, 1)
    buffer.push(block)
    assert buffer.count() == 2
    assert set(buffer.sample(1000)["index"].tolist()) == {77, 4321}


@pytest.mark.parametrize("kind", [UniformReplayBuffer, PrioritizedReplayBuffer])
def test_no_valid_step_at_all_is_an_error_and_no_endless_search(kind: Any) -> None:
    buffer = kind(20, 1)
    block = History(1, 1).play(10)
    buffer.push(block | {"valid": torch.zeros(10, 1, dtype=torch.bool)})
    assert buffer.count() == 0
    with pytest.raises(ValueError, match="nothing that can be sampled"):
        buffer.sample(1)


@pytest.mark.parametrize("kind", [UniformReplayBuffer, PrioritizedReplayBuffer, SequenceReplayBuffer])
def test_valid_is_no_column_and_draws_are_the_same_where_all_is_valid(kind: Any) -> None:
    batches = []
    for has_valid in (False, True):
        history, buffer = History(NUM_ENVS, 1), make_buffer(kind, 3, 1)
        for _ in range(6):
            block = history.play(7)
            buffer.push(block | {"valid": torch.ones(7, NUM_ENVS, dtype=torch.bool)} if has_valid else block)
        batches.append(buffer.sample(100))
    assert set(batches[0]) == set(batches[1])
    assert torch.equal(batches[0]["index"], batches[1]["index"])


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize(("kind", "span"), [(UniformReplayBuffer, 3), (SequenceReplayBuffer, 5)])
def test_no_sample_crosses_where_an_environment_was_reset_in_the_middle(kind: Any, span: int, stack: int) -> None:
    # As after resuming, where an environment could not be restored: no flag says that its episode was given up.
    history, buffer = History(NUM_ENVS, stack, seed=1), make_buffer(kind, span, stack)
    for n_step in PUSHES[:6]:
        buffer.push(history.play(min(n_step, buffer._num_rows)))
        last = history.steps[-1][1]
        last["valid"] = last["traj_flag"]  # with the record's marks: a sample must not hold this step
        history.start(1)
        buffer.push(history.play(3))
        expected = free_starts(buffer, history, span)
        assert buffer.count() == len(expected)
        assert sampled_starts(buffer, history) == expected


def test_marks_go_with_the_rows_that_are_overwritten() -> None:
    history, buffer = History(NUM_ENVS, 1), make_buffer(UniformReplayBuffer, 1, 1)
    block = history.play(NUM_ROWS)
    buffer.push(block | {"valid": torch.from_numpy(np.arange(NUM_ROWS) > 3)[:, None].expand(-1, NUM_ENVS)})
    assert buffer.count() < (NUM_ROWS - 1) * NUM_ENVS
    buffer.push(history.play(4))
    assert not buffer._any_barred
    assert buffer.count() == (NUM_ROWS - 1) * NUM_ENVS

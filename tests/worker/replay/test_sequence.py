"""Sequences must be what was played, row after row: by hand on small games, and against a naive record."""

from __future__ import annotations

import pytest
import torch

from ding_lite.worker import SequenceReplayBuffer
from tests.worker.replay.history import GAMMA, History, check_sequences

VARIANTS = [(2, 0, 1, 4), (5, 0, 1, 4), (7, 0, 1, 1), (4, 3, 1, 1), (4, 3, 1, 4), (3, 2, 3, 1)]


@pytest.mark.parametrize(
    ("unroll_len", "burnin_step", "nstep", "stack"),
    [(2, 0, 1, 1), (7, 0, 1, 4), (3, 2, 3, 4), *(pytest.param(*w, marks=pytest.mark.slow) for w in VARIANTS)],
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


def test_the_recurrent_state_is_the_one_before_the_first_row() -> None:
    buffer, history = SequenceReplayBuffer(12, 3, 4, burnin_step=2), History(3, 1)
    number = torch.arange(16 * 3.0).view(16, 3)
    buffer.push(history.play(16) | {"prev_state": {"h": number[..., None], "c": {"inner": number}}})
    batch = buffer.sample(20)
    assert batch["prev_state"]["h"].shape == (20, 1)
    assert batch["prev_state"]["h"][:, 0].tolist() == batch["index"].tolist()  # the number is the place
    assert torch.equal(batch["prev_state"]["c"]["inner"], batch["prev_state"]["h"][:, 0])

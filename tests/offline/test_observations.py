"""The replay buffer `observations`: what a batch has of the expert, and that it goes on from a state."""

from __future__ import annotations

import copy
from pathlib import Path

from ding_lite.offline.observations import ObservationReplayBuffer
from tests.offline.test_demonstrations import block
from tests.offline.test_sqil import ROWS, write_expert
from tests.policy.helpers import same_tree


def create(path: Path) -> ObservationReplayBuffer:
    """Return a buffer with 8 steps of 2 environments, whose observations are 0."""
    buffer = ObservationReplayBuffer(64, 2, write_expert(path / "expert.npz"), seed=1)
    buffer.push(block(8))
    return buffer


def test_a_batch_has_as_many_steps_of_the_expert(tmp_path: Path) -> None:
    seen = set()
    for batch in create(tmp_path).batches(6, 40):
        assert batch["obs"].abs().sum() == 0.0
        expert = batch["expert"]
        assert expert.keys() == {"obs", "next_obs"}
        assert expert["obs"].shape == (6, 4)
        assert (expert["next_obs"] - expert["obs"] == 1.0).all()
        seen |= set(expert["obs"][:, 0].tolist())
    assert seen == {100.0 + row for row in range(ROWS)}


def test_a_buffer_that_goes_on_from_a_state_draws_what_it_would_have_drawn(tmp_path: Path) -> None:
    buffer, other = create(tmp_path), create(tmp_path)
    list(buffer.batches(8, 3))
    other.load_state_dict(copy.deepcopy(buffer.state_dict()))
    assert same_tree(list(buffer.batches(8, 5)), list(other.batches(8, 5)))

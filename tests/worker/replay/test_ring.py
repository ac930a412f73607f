"""The ring keeps what a naive record of the steps keeps, in less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.worker import Ring
from tests.worker.replay.history import History


@pytest.mark.parametrize("keeps_last", [False, True])
def test_no_stack_reaches_before_the_first_row_if_that_is_amid_an_episode(keeps_last: bool) -> None:
    history, ring = History(num_envs=3, stack=4), Ring(20, 3, 4, keeps_last=keeps_last)
    history.play(5)  # not stored: a run that was resumed without its replay buffer goes on in running episodes
    assert any(step["age"] for step in history.steps[-1])
    for n_step in (2, 3, 4):
        ring.push(history.play(n_step))
        starts = ring.starts(1)
        assert starts == range(3, max(ring.size - (not keeps_last), 3))  # three rows hold the older frames
        for row in starts:
            obs_N = ring.observations(torch.from_numpy(ring.places(np.array(row), np.arange(3))))
            for obs, step in zip(obs_N, history.steps[5 + row], strict=True):
                np.testing.assert_array_equal(obs, history.observed(step["obs"]))


def test_a_frame_stack_costs_one_frame_a_step() -> None:
    ring = Ring(500, 2, frame_stack=4)
    ring.push(History(2, 4).play(3))
    assert ring.columns["obs"].numel() == (500 * 2 + 1) * 2 * 2  # and the one before an episode
    assert ring.obs_bytes() == 4 * 2 * 2


def test_the_side_table_of_last_observations_does_not_grow_for_ever() -> None:
    history, ring = History(num_envs=4, stack=1), Ring(20, 4)
    for _ in range(100):
        ring.push(history.play(5))
    assert len(ring.finals.obs) <= 64  # 80 places, one in five is the last of an episode: 16 expected, doubling from 16


def test_a_block_of_more_rows_than_the_ring_has_is_an_error() -> None:
    with pytest.raises(ValueError, match="9 rows does not fit a replay buffer of 8 rows"):
        Ring(8, 2).push(History(2, 1).play(9))


def test_columns_that_a_policy_adds_may_be_nested() -> None:
    ring, block = Ring(8, 2), History(2, 1).play(3)
    state = {"h": torch.arange(6.0).view(3, 2, 1), "c": {"inner": torch.arange(6).view(3, 2)}}
    ring.push(block | {"prev_state": state})
    rows = ring.rows(torch.tensor([3, 4]))
    assert rows["prev_state"]["h"].tolist() == [[3.0], [4.0]]
    assert rows["prev_state"]["c"]["inner"].tolist() == [3, 4]
    assert "obs" not in rows


def block_of(obs: list[float], traj_flag: bool = False, done: bool = False, step: int = 0) -> dict[str, Any]:
    """Return a row of as many environments as there are observations."""
    flags = {"traj_flag": torch.full((1, len(obs)), traj_flag), "done": torch.full((1, len(obs)), done)}
    row = {"obs": torch.tensor([obs]), "reward": torch.ones(1, len(obs)), **flags}
    return row | {"episode_step": torch.full((1, len(obs)), step, dtype=torch.int32)}


def test_truncate_cuts_the_newest_row_of_the_environments_that_it_names() -> None:
    ring = Ring(4, 3)
    ring.push(block_of([1.0, 2.0, 3.0]))
    ring.truncate(torch.tensor([0, 2]), torch.tensor([10.0, 30.0], dtype=torch.float64))
    ring.push(block_of([4.0, 5.0, 6.0]))
    place_N = torch.arange(3)
    assert ring.rows(place_N)["traj_flag"].tolist() == [True, False, True]
    assert ring.rows(place_N)["done"].tolist() == [False] * 3
    assert ring.successors(place_N).tolist() == [10.0, 5.0, 30.0]


FINAL = {"final_obs": torch.tensor([7.0]), "final_index": torch.tensor([0])}


# A trajectory has ended with 7; with `learn.ignore_done`, a lost life ended it, and 50 followed in the same game.
@pytest.mark.parametrize(("end", "successor"), [(FINAL, 7.0), ({}, 50.0)], ids=["an end", "a lost life"])
def test_truncate_keeps_what_followed_a_trajectory_that_has_ended(end: dict[str, Any], successor: float) -> None:
    ring = Ring(4, 1)
    ring.push(block_of([1.0], traj_flag=True) | end)
    ring.truncate(torch.tensor([0]), torch.tensor([50.0]))
    ring.push(block_of([2.0]))  # the first observation of another game
    assert ring.successors(torch.tensor([0])).tolist() == [successor]


def test_there_is_nothing_to_truncate_in_an_empty_ring() -> None:
    ring = Ring(4, 1)
    ring.truncate(torch.tensor([0]), torch.tensor([1.0]))
    assert (ring.size, ring.columns) == (0, {})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_ring_on_a_gpu_equals_one_in_host_memory() -> None:
    rings = [Ring(20, 3, 4), Ring(20, 3, 4, device="cuda")]
    history = History(3, 4)
    for n_step in (7, 9, 13):
        block = history.play(n_step)
        for ring in rings:
            ring.push(block)
    place_B = torch.from_numpy(rings[0].places(np.arange(3, 19)[:, None], np.arange(3)).ravel())
    for method in ("observations", "successors"):
        host, gpu = (getattr(ring, method)(place_B.to(ring.device)) for ring in rings)
        assert torch.equal(host, gpu.cpu())

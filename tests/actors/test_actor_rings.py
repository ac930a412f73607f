"""The rings of several actors in one memory hold what a buffer of each actor alone would, at any pace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.utils.tree import tree_map
from ding_lite.worker import ReplayBuffer
from ding_lite.worker.replay.prioritized import PrioritizedSampler
from tests.worker.replay.history import History
from tests.worker.replay.test_state import KINDS, NUM_ENVS, SEQUENCES, assert_equal, nested, samples, via_file

PACES = [(0, 5), (2, 1), (0, 8), (0, 3), (2, 9), (0, 11), (1, 4), (2, 7), (0, 2), (2, 6)]  # actor, rows of its block
REPLACED, SAVED = 7, 8  # blocks before which an actor is replaced, and the buffer is saved and read back


def samples_of(joint: ReplayBuffer, actor: int, alone: list[ReplayBuffer]) -> dict[str, Any]:
    counts = [buffer.count() // NUM_ENVS for buffer in alone]
    assert joint.count() == sum(counts) * NUM_ENVS
    row_R = np.arange(sum(counts[:actor]), sum(counts[: actor + 1]))
    place_B = joint.ring.places(row_R[:, None], np.arange(NUM_ENVS)).ravel()
    batch = joint.view.gather(joint.ring, {"index": torch.from_numpy(place_B)})
    if isinstance(joint.sampler, PrioritizedSampler):
        batch["priority"] = torch.from_numpy(joint.sampler._tree[place_B])
    return batch


@pytest.mark.parametrize("form", ["vector", "dict", "stack"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_actor_has_the_samples_of_a_buffer_of_its_own(
    kind: Callable[..., ReplayBuffer], form: str, tmp_path: Path
) -> None:
    stack = 4 if form == "stack" else 1
    span: dict[str, Any] = {"unroll_len": 3} if kind in SEQUENCES else {"nstep": 3}

    def create(actors: int = 0, seed: int = 0) -> ReplayBuffer:
        size = (6 if kind in SEQUENCES else 20) * NUM_ENVS * max(actors, 1)
        return kind(size, NUM_ENVS, frame_stack=stack * (stack > 1), seed=seed, num_actors=actors, **span)

    joint, alone = create(3), [create() for _ in range(3)]
    histories = [History(NUM_ENVS, stack, seed=actor) for actor in range(3)]
    last_obs: list[Any] = [None] * 3
    for i, (actor, n_step) in enumerate(PACES):
        if i == SAVED:
            state = via_file(joint, tmp_path / "state.pth.tar", mmap=False)
            joint = create(3, seed=9)
            joint.load_state_dict(state)
        block: dict[str, Any] = {}
        if i == REPLACED:
            histories[actor] = History(NUM_ENVS, stack, seed=33)
            lost = torch.arange(NUM_ENVS)
            alone[actor].truncate(lost, last_obs[actor])
            block = {"cut": {"env": lost, "obs": last_obs[actor]}}
        played = histories[actor].play(n_step)
        played = nested(played) if form == "dict" else played
        last_obs[actor] = tree_map(torch.clone, played["last_obs"])
        alone[actor].push(played)
        joint.push(played | block | {"actor": torch.tensor(actor)})
        for each, buffer in enumerate(alone):
            if buffer.count():
                assert_equal(samples(buffer, range(NUM_ENVS)), samples_of(joint, each, alone))


def test_every_sample_of_every_actor_is_equally_likely() -> None:
    buffer = KINDS[0](90, 1, num_actors=3)
    for actor, n_step in enumerate((4, 30, 11)):
        buffer.push(History(1, 1, seed=actor).play(n_step) | {"actor": torch.tensor(actor)})
    index, number = torch.unique(buffer.sample(40_000)["index"], return_counts=True)
    assert len(index) == buffer.count()
    # 40,000 draws of n samples: each is drawn 40,000 / n times, with a standard deviation of the root of that
    mean = 40_000 / len(index)
    assert ((number - mean).abs() < 5 * mean**0.5).all()

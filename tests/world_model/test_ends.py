"""The buffer of world models: sequences as the record has them, with the last observations of all episodes."""

from __future__ import annotations

import numpy as np
import pytest

from ding_lite.utils import ConfigError
from ding_lite.world_model.ends import SequenceEndsReplayBuffer
from tests.worker.replay.history import History


@pytest.mark.parametrize("stack", [1, 4])
def test_every_end_of_an_episode_has_its_last_observation_also_in_the_last_row(stack: int) -> None:
    span, number = 5, 200
    history = History(num_envs=3, stack=stack)
    buffer = SequenceEndsReplayBuffer(12, 3, span, frame_stack=stack if stack > 1 else 0, seed=1)
    kinds = set()
    for n_step in (9, 4, 7, 5, 8):  # rows are overwritten
        buffer.push(history.play(n_step))
        batch, expected = buffer.sample(number), {}
        for b in range(number):
            row, n = divmod(int(batch["index"][b]), history.num_envs)
            time = history.time(row, buffer.ring.num_rows)
            for t in range(span):
                step = history.steps[time + t][n]
                np.testing.assert_array_equal(batch["obs"][t, b], history.observed(step["obs"]))
                assert batch["done"][t, b].item() == step["done"]
                if step["kind"] in ("terminated", "truncated"):  # after a lost life, the next row follows
                    expected[t * number + b] = history.observed(step["following"])
                    kinds.add((step["kind"], t == span - 1))
        places = batch["final_index"].tolist()
        assert places == sorted(expected)
        np.testing.assert_array_equal(batch["final_obs"], np.stack([expected[place] for place in places]))
    assert len(kinds) == 4


def test_it_stores_sequences_only() -> None:
    with pytest.raises(ConfigError, match="stores sequences of"):
        SequenceEndsReplayBuffer(12, 3)

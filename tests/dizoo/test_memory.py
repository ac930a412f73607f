"""The memory task: what is seen, what a decision is worth."""

from __future__ import annotations

import numpy as np
import pytest
from easydict import EasyDict

from dizoo.memory.envs.memory_env import MemoryEnv


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("right", [True, False])
def test_the_cue_is_shown_once_and_the_decision_at_the_end_counts(length: int, right: bool) -> None:
    env = MemoryEnv(EasyDict(length=length))
    cues = []
    for seed in range(8):
        obs, _ = env.reset(seed=seed)
        cue = int(obs[0] > 0)
        cues.append(cue)
        for step in range(length):
            assert obs.dtype == np.float32
            assert env.observation_space.contains(obs)
            assert obs.tolist() == [(2 * cue - 1 if step == 0 else 0), float(step == length - 1)]
            last = step == length - 1
            action = cue if right == last else 1 - cue  # what is done before the end does not matter
            obs, reward, terminated, truncated, _ = env.step(action)
            assert (terminated, truncated) == (last, False)
            assert reward == (0.0 if not last else 1.0 if right else -1.0)
    assert set(cues) == {0, 1}

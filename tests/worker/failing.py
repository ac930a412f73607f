"""Games whose environments fail at known steps."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tests.worker.games import CountingGame


class FailingGame(CountingGame):
    """The game in one process, where a failing step only says that it failed, as a lost worker's would.

    Args:
        length: steps of an episode.
        fails: by the number of episodes that ended before, the steps that are played before the one that fails.
    """

    def __init__(self, length: int, fails: dict[int, int], end: str = "terminated") -> None:
        super().__init__(length, end)
        self._fails, self._ended, self._failed = fails, 0, False

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        obs, info = super().reset(seed=seed, options=options)
        info |= {"abnormal": True} if self._failed else {}
        self._failed = False
        return obs, info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._failed = self._fails.get(self._ended) == self.step_count
        if self._failed:
            self._ended += 1
            return self._observe()[0], 0.0, False, True, {}
        obs, reward, terminated, truncated, info = super().step(action)
        self._ended += terminated or truncated
        return obs, reward, terminated, truncated, info


class DyingGame(CountingGame):
    """The game, whose process dies in its third step of the episode with seed `dies_in`."""

    def __init__(self, length: int, dies_in: int) -> None:
        super().__init__(length)
        self._dies_in = dies_in

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if (self.seed, self.step_count) == (self._dies_in, 2):
            os._exit(1)
        return super().step(action)

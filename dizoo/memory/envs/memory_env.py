"""A corridor in which a cue must be remembered, like bsuite's memory_len (Osband et al. 2020, arXiv:1908.03568)."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY


@ENV_REGISTRY.register("memory")
class MemoryEnv(gymnasium.Env):
    """The first observation shows a cue; at the end of the corridor, the action that the cue names is worth 1.

    The other action is worth -1. Actions before the end have no effect. The observation is the cue, -1 or 1 in the
    first step and 0 later, and whether this is the last step. A policy without memory has a mean return of 0 at best.
    """

    config: ClassVar = dict(
        env_id=Key("Memory-v0", "name of the task"),
        length=Key(8, "env steps of an episode, from the cue to the decision", low=1),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        self._length = cfg_env.length
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw a cue; return the first observation."""
        super().reset(seed=seed)
        self._step, self._cue = 0, int(self.np_random.integers(2))
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Go one step further; the last one ends the episode."""
        self._step += 1
        over = self._step == self._length
        reward = (1.0 if action == self._cue else -1.0) if over else 0.0
        return self._observe(), reward, over, False, {}

    def _observe(self) -> np.ndarray:
        cue = 2.0 * self._cue - 1.0 if self._step == 0 else 0.0
        return np.array([cue, self._step == self._length - 1], np.float32)

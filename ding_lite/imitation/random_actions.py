"""A wrapper of an environment that plays some random actions instead of those that it is given."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ding_lite.envs.actions import sample_masked
from ding_lite.utils.tree import MASK


class RandomActions(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Replaces a share of the actions by random ones that the `action_mask` allows, if there is one.

    In a config: `env.wrappers=[dict(name="ding_lite.imitation.random_actions:RandomActions", share=0.5)]`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], share: float) -> None:
        super().__init__(env)
        self._share, self._random, self._obs = share, np.random.default_rng(0), None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, whose seed is also that of its random actions."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
            self.action_space.seed(seed)
        self._obs, info = super().reset(seed=seed, options=options)
        return self._obs, info

    def step(self, action: Any) -> Any:
        if self._random.random() < self._share:
            action = self._draw()
        self._obs, *rest = super().step(action)
        return self._obs, *rest

    def _draw(self) -> Any:
        if isinstance(self._obs, dict) and MASK in self._obs:
            return sample_masked(self._obs[MASK], self._random) + getattr(self.action_space, "start", 0)
        return self.action_space.sample()

"""The experiments of bsuite (Osband et al. 2020, arXiv:1908.03568); they need the extra `bsuite`."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Discrete

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest, load_extra


@ENV_REGISTRY.register("bsuite")
class BSuiteEnv(gymnasium.Env):
    """An experiment with one of its settings; observations are flattened.

    An episode that ends with a discount of 0 is terminated, and truncated otherwise. bsuite's settings fix a seed of
    the environment's randomness; here each episode's own seed replaces it. What is drawn once for a setting, such as
    the rewards of the arms of `bandit`, stays the same in all episodes.

    Raises:
        ConfigError: bsuite is not installed, or has no such experiment.
    """

    config: ClassVar = dict(
        env_id=Key("catch/0", "experiment, and number of its setting, such as 'memory_len/15'"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        suite, what = load_extra("bsuite", "bsuite", "This environment"), f"env.env_id '{cfg_env.env_id}'"
        settings = load_extra("bsuite.sweep", "bsuite", what).SETTINGS
        if cfg_env.env_id not in settings:
            raise ConfigError(f"{what}: bsuite has no such experiment.{closest(cfg_env.env_id, settings)}")
        self._game = suite.load(cfg_env.env_id.partition("/")[0], settings[cfg_env.env_id])
        size = math.prod(self._game.observation_spec().shape)
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = Discrete(self._game.action_spec().num_values)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        part: Any = self._game
        while part is not None:  # the experiment, which may be a wrapper that adds noise, and what it wraps
            if "_rng" in vars(part):
                part._rng = np.random.RandomState(self.np_random.integers(2**32))
            part = vars(part).get("_env")
        return self._flat(self._game.reset()), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take a step of the experiment."""
        found = self._game.step(int(action))
        over, terminated = found.last(), found.discount == 0
        return self._flat(found), float(found.reward), over and terminated, over and not terminated, {}

    def _flat(self, found: Any) -> np.ndarray:
        return np.ravel(found.observation).astype(np.float32)

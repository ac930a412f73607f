"""Checks of the options that normalise observations and rewards, `env.norm_obs` and `env.norm_reward`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict

from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError


def check_normalization(cfg: EasyDict) -> None:
    """Check that the policy's training loop can normalise what the config wants normalised.

    Args:
        cfg: the compiled config.

    Raises:
        ConfigError: it cannot.
    """
    norm_obs, norm_reward = cfg.env.norm_obs, cfg.env.norm_reward
    offline = POLICY_REGISTRY.find(cfg.policy.type).learns_from == "dataset"
    if norm_obs.offline_stats.use_offline_stats and norm_obs.use_norm and not offline:
        raise ConfigError(
            f"env.norm_obs.offline_stats.use_offline_stats=True: policy '{cfg.policy.type}' learns without a data set. "
            "Leave it out: the statistics are then those of the observations that are collected."
        )
    if norm_reward.use_norm and offline:
        raise ConfigError(
            f"env.norm_reward=True: policy '{cfg.policy.type}' learns from a data set, whose rows need not be whole "
            "episodes in order of time. Leave it out, and scale the rewards of the data set instead."
        )
    if norm_reward.use_norm and norm_reward.reward_discount is None and "discount_factor" not in cfg.policy:
        raise ConfigError("env.norm_reward.reward_discount: expected a number, as the policy has no discount_factor.")
    changes = isinstance(cfg.policy.get("discount_factor"), Mapping)
    if norm_reward.use_norm and norm_reward.reward_discount is None and changes:
        raise ConfigError(
            "env.norm_reward.reward_discount: expected a number, as policy.discount_factor is a schedule, and the "
            "returns that scale the rewards have one discount."
        )


def check_observations(observation_space: gymnasium.Space[Any]) -> None:
    """Check that `env.norm_obs` has something to normalise.

    Args:
        observation_space: the space of one observation, as the policy sees it.

    Raises:
        ConfigError: no part of an observation consists of floats.
    """
    if not _has_floats(observation_space):
        raise ConfigError(
            f"env.norm_obs=True, but the observations are {observation_space}: images of bytes are scaled to 0..1 by "
            "the networks. Set env.norm_obs=False."
        )


def _has_floats(space: gymnasium.Space[Any]) -> bool:
    if isinstance(space, gymnasium.spaces.Dict):
        return any(_has_floats(part) for key, part in space.items() if key != "action_mask")
    return np.issubdtype(space.dtype, np.floating)

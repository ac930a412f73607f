"""Reward models: what changes or adds a reward between collecting and storing."""

from ding_lite.reward_model.base import RewardModel, next_obs

__all__ = ["RewardModel", "next_obs"]

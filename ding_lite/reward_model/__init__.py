"""Reward models, which change or add rewards between collecting and storing."""

from ding_lite.reward_model.base import RewardModel, next_obs

__all__ = ["RewardModel", "next_obs"]

"""Policies: one algorithm a file, each with its config and its learn / collect / eval modes."""

from ding_lite.policy.base_policy import Policy
from ding_lite.policy.dqn import DQNPolicy

__all__ = ["DQNPolicy", "Policy"]

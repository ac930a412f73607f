"""Policies: one algorithm a file, each with its config and its learn / collect / eval modes."""

from ding_lite.policy.a2c import A2CPolicy
from ding_lite.policy.base_policy import Policy
from ding_lite.policy.dqn import DQNPolicy
from ding_lite.policy.impala import IMPALAPolicy
from ding_lite.policy.pg import PGPolicy
from ding_lite.policy.ppo import PPOPolicy
from ding_lite.policy.ppo_offpolicy import PPOOffPolicy

__all__ = ["A2CPolicy", "DQNPolicy", "IMPALAPolicy", "PGPolicy", "PPOOffPolicy", "PPOPolicy", "Policy"]

"""Policies: one algorithm a file, each with its config and its learn / collect / eval modes."""

from ding_lite.policy.a2c import A2CPolicy
from ding_lite.policy.base_policy import Policy
from ding_lite.policy.bc import BCPolicy
from ding_lite.policy.cql import CQLPolicy
from ding_lite.policy.discrete_cql import DiscreteCQLPolicy
from ding_lite.policy.dqn import DQNPolicy
from ding_lite.policy.impala import IMPALAPolicy
from ding_lite.policy.iql import IQLPolicy
from ding_lite.policy.offline_policy import OfflinePolicy
from ding_lite.policy.pg import PGPolicy
from ding_lite.policy.ppo import PPOPolicy
from ding_lite.policy.ppo_offpolicy import PPOOffPolicy
from ding_lite.policy.qac import QACPolicy
from ding_lite.policy.td3_bc import TD3BCPolicy

__all__ = [
    "A2CPolicy",
    "BCPolicy",
    "CQLPolicy",
    "DQNPolicy",
    "DiscreteCQLPolicy",
    "IMPALAPolicy",
    "IQLPolicy",
    "OfflinePolicy",
    "PGPolicy",
    "PPOOffPolicy",
    "PPOPolicy",
    "Policy",
    "QACPolicy",
    "TD3BCPolicy",
]

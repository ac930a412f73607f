"""Policies: one file for each algorithm, with its config and its learn, collect and eval modes."""

from ding_lite.policy.base import Policy
from ding_lite.policy.continuous.qac import QACPolicy
from ding_lite.policy.offline.bc import BCPolicy
from ding_lite.policy.offline.cql import CQLPolicy
from ding_lite.policy.offline.discrete_cql import DiscreteCQLPolicy
from ding_lite.policy.offline.iql import IQLPolicy
from ding_lite.policy.offline.source import OfflinePolicy
from ding_lite.policy.offline.td3_bc import TD3BCPolicy
from ding_lite.policy.policy_gradient.a2c import A2CPolicy
from ding_lite.policy.policy_gradient.acer import ACERPolicy
from ding_lite.policy.policy_gradient.discrete_sac import DiscreteSACPolicy
from ding_lite.policy.policy_gradient.impala import IMPALAPolicy
from ding_lite.policy.policy_gradient.pg import PGPolicy
from ding_lite.policy.policy_gradient.ppo import PPOPolicy
from ding_lite.policy.policy_gradient.ppo_offpolicy import PPOOffPolicy
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.policy.value.pdqn import PDQNPolicy

__all__ = [
    "A2CPolicy",
    "ACERPolicy",
    "BCPolicy",
    "CQLPolicy",
    "DQNPolicy",
    "DiscreteCQLPolicy",
    "DiscreteSACPolicy",
    "IMPALAPolicy",
    "IQLPolicy",
    "OfflinePolicy",
    "PDQNPolicy",
    "PGPolicy",
    "PPOOffPolicy",
    "PPOPolicy",
    "Policy",
    "QACPolicy",
    "TD3BCPolicy",
]

"""Policies: one file for each algorithm, with its config, its losses and how it acts."""

from ding_lite.policy.base import Policy
from ding_lite.policy.continuous.d4pg import D4PGPolicy
from ding_lite.policy.continuous.ddpg import DDPGPolicy
from ding_lite.policy.continuous.paddpg import PADDPGPolicy
from ding_lite.policy.continuous.qac import QACPolicy
from ding_lite.policy.continuous.sac import SACPolicy
from ding_lite.policy.continuous.td3 import TD3Policy
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
from ding_lite.policy.value.bdq import BDQPolicy
from ding_lite.policy.value.c51 import C51Policy
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.policy.value.fqf import FQFPolicy
from ding_lite.policy.value.iqn import IQNPolicy
from ding_lite.policy.value.mdqn import MDQNPolicy
from ding_lite.policy.value.pdqn import PDQNPolicy
from ding_lite.policy.value.qrdqn import QRDQNPolicy
from ding_lite.policy.value.r2d2 import R2D2Policy
from ding_lite.policy.value.rainbow import RainbowDQNPolicy
from ding_lite.policy.value.sql import SQLPolicy
from ding_lite.policy.value.sqn import SQNPolicy
from ding_lite.utils.registry import import_modules

__all__ = [
    "A2CPolicy",
    "ACERPolicy",
    "BCPolicy",
    "BDQPolicy",
    "C51Policy",
    "CQLPolicy",
    "D4PGPolicy",
    "DDPGPolicy",
    "DQNPolicy",
    "DiscreteCQLPolicy",
    "DiscreteSACPolicy",
    "FQFPolicy",
    "IMPALAPolicy",
    "IQLPolicy",
    "IQNPolicy",
    "MDQNPolicy",
    "OfflinePolicy",
    "PADDPGPolicy",
    "PDQNPolicy",
    "PGPolicy",
    "PPOOffPolicy",
    "PPOPolicy",
    "Policy",
    "QACPolicy",
    "QRDQNPolicy",
    "R2D2Policy",
    "RainbowDQNPolicy",
    "SACPolicy",
    "SQLPolicy",
    "SQNPolicy",
    "TD3BCPolicy",
    "TD3Policy",
]

import_modules(__name__, __path__)

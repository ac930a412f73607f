"""Policies: one file for each algorithm, with its config, its losses and how it acts.

Its page in docs/algorithms explains the figures that it logs, and what differs from the paper.
"""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.distillation.distill import DistillPolicy as DistillPolicy
    from ding_lite.multi_agent.policy.coma import COMAPolicy as COMAPolicy
    from ding_lite.multi_agent.policy.happo import HAPPOPolicy as HAPPOPolicy
    from ding_lite.multi_agent.policy.madqn import MADQNPolicy as MADQNPolicy
    from ding_lite.multi_agent.policy.mappo import MAPPOPolicy as MAPPOPolicy
    from ding_lite.multi_agent.policy.qmix import QMIXPolicy as QMIXPolicy
    from ding_lite.multi_agent.policy.wqmix import WQMIXPolicy as WQMIXPolicy
    from ding_lite.offline.policy.awac import AWACPolicy as AWACPolicy
    from ding_lite.offline.policy.bc import BCPolicy as BCPolicy
    from ding_lite.offline.policy.bco import BCOPolicy as BCOPolicy
    from ding_lite.offline.policy.bcq import BCQPolicy as BCQPolicy
    from ding_lite.offline.policy.cql import CQLPolicy as CQLPolicy
    from ding_lite.offline.policy.discrete_cql import DiscreteCQLPolicy as DiscreteCQLPolicy
    from ding_lite.offline.policy.dqfd import DQFDPolicy as DQFDPolicy
    from ding_lite.offline.policy.dt import DTPolicy as DTPolicy
    from ding_lite.offline.policy.edac import EDACPolicy as EDACPolicy
    from ding_lite.offline.policy.iql import IQLPolicy as IQLPolicy
    from ding_lite.offline.policy.online import OnlineCQLPolicy as OnlineCQLPolicy
    from ding_lite.offline.policy.online import OnlineIQLPolicy as OnlineIQLPolicy
    from ding_lite.offline.policy.online import OnlineTD3BCPolicy as OnlineTD3BCPolicy
    from ding_lite.offline.policy.r2d3 import R2D3Policy as R2D3Policy
    from ding_lite.offline.policy.td3_bc import TD3BCPolicy as TD3BCPolicy
    from ding_lite.policy.base import Policy as Policy
    from ding_lite.policy.base import create_policy as create_policy
    from ding_lite.policy.continuous.d4pg import D4PGPolicy as D4PGPolicy
    from ding_lite.policy.continuous.ddpg import DDPGPolicy as DDPGPolicy
    from ding_lite.policy.continuous.ddpg import TD3Policy as TD3Policy
    from ding_lite.policy.continuous.paddpg import PADDPGPolicy as PADDPGPolicy
    from ding_lite.policy.continuous.recurrent import RecurrentSACPolicy as RecurrentSACPolicy
    from ding_lite.policy.continuous.recurrent import RecurrentTD3Policy as RecurrentTD3Policy
    from ding_lite.policy.continuous.redq import REDQPolicy as REDQPolicy
    from ding_lite.policy.continuous.sac import SACPolicy as SACPolicy
    from ding_lite.policy.continuous.tqc import TQCPolicy as TQCPolicy
    from ding_lite.policy.policy_gradient.a2c import A2CPolicy as A2CPolicy
    from ding_lite.policy.policy_gradient.acer import ACERPolicy as ACERPolicy
    from ding_lite.policy.policy_gradient.discrete_sac import DiscreteSACPolicy as DiscreteSACPolicy
    from ding_lite.policy.policy_gradient.impala import IMPALAPolicy as IMPALAPolicy
    from ding_lite.policy.policy_gradient.pg import PGPolicy as PGPolicy
    from ding_lite.policy.policy_gradient.ppg import PPGPolicy as PPGPolicy
    from ding_lite.policy.policy_gradient.ppo import PPOPolicy as PPOPolicy
    from ding_lite.policy.policy_gradient.ppo_offpolicy import PPOOffPolicy as PPOOffPolicy
    from ding_lite.policy.policy_gradient.ppo_pg import PPOPGPolicy as PPOPGPolicy
    from ding_lite.policy.stdim import DQNSTDIMPolicy as DQNSTDIMPolicy
    from ding_lite.policy.stdim import PPOSTDIMPolicy as PPOSTDIMPolicy
    from ding_lite.policy.value.bdq import BDQPolicy as BDQPolicy
    from ding_lite.policy.value.c51 import C51Policy as C51Policy
    from ding_lite.policy.value.dqn import DQNPolicy as DQNPolicy
    from ding_lite.policy.value.fqf import FQFPolicy as FQFPolicy
    from ding_lite.policy.value.iqn import IQNPolicy as IQNPolicy
    from ding_lite.policy.value.mdqn import MDQNPolicy as MDQNPolicy
    from ding_lite.policy.value.ngu import NGUPolicy as NGUPolicy
    from ding_lite.policy.value.pdqn import PDQNPolicy as PDQNPolicy
    from ding_lite.policy.value.pqn import PQNPolicy as PQNPolicy
    from ding_lite.policy.value.qrdqn import QRDQNPolicy as QRDQNPolicy
    from ding_lite.policy.value.r2d2 import R2D2Policy as R2D2Policy
    from ding_lite.policy.value.rainbow import RainbowDQNPolicy as RainbowDQNPolicy
    from ding_lite.policy.value.sql import SQLPolicy as SQLPolicy
    from ding_lite.policy.value.sqn import SQNPolicy as SQNPolicy
    from ding_lite.world_model.policy.dreamer import DreamerPolicy as DreamerPolicy
    from ding_lite.world_model.policy.mbsac import MBSACPolicy as MBSACPolicy
    from ding_lite.world_model.policy.stevesac import STEVESACPolicy as STEVESACPolicy
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)

"""Neural networks: encoders, heads, and the models that policies train.

A constructor raises `ConfigError` if an argument has a value that is not possible.
"""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.distillation.distill import Student as Student
    from ding_lite.model.bdq import BDQ as BDQ
    from ding_lite.model.distributional import C51DQN as C51DQN
    from ding_lite.model.distributional import FQF as FQF
    from ding_lite.model.distributional import IQN as IQN
    from ding_lite.model.distributional import QRDQN as QRDQN
    from ding_lite.model.distributional import DistributionHead as DistributionHead
    from ding_lite.model.distributional import FractionHead as FractionHead
    from ding_lite.model.distributional import QuantileHead as QuantileHead
    from ding_lite.model.distributional import RainbowDQN as RainbowDQN
    from ding_lite.model.encoders import FCEncoder as FCEncoder
    from ding_lite.model.encoders import IMPALAConvEncoder as IMPALAConvEncoder
    from ding_lite.model.encoders import create_encoder as create_encoder
    from ding_lite.model.gtrxl import GTrXL as GTrXL
    from ding_lite.model.hybrid_qac import PDQN as PDQN
    from ding_lite.model.hybrid_qac import HybridQAC as HybridQAC
    from ding_lite.model.image import ConvEncoder as ConvEncoder
    from ding_lite.model.mlp import MLP as MLP
    from ding_lite.model.mlp import PairEmbedding as PairEmbedding
    from ding_lite.model.noisy import NoisyLinear as NoisyLinear
    from ding_lite.model.q_learning import DQN as DQN
    from ding_lite.model.q_learning import SQN as SQN
    from ding_lite.model.q_learning import DiscreteHead as DiscreteHead
    from ding_lite.model.q_learning import DuelingHead as DuelingHead
    from ding_lite.model.q_learning import ValueNetwork as ValueNetwork
    from ding_lite.model.qac import ACER as ACER
    from ding_lite.model.qac import EDAC as EDAC
    from ding_lite.model.qac import QAC as QAC
    from ding_lite.model.qac import QACDIST as QACDIST
    from ding_lite.model.qac import QVAC as QVAC
    from ding_lite.model.qac import ContinuousQAC as ContinuousQAC
    from ding_lite.model.qac import DiscreteQAC as DiscreteQAC
    from ding_lite.model.qac import NormalQAC as NormalQAC
    from ding_lite.model.qac import QACEnsemble as QACEnsemble
    from ding_lite.model.qac import QACQuantile as QACQuantile
    from ding_lite.model.recurrent import DRQN as DRQN
    from ding_lite.model.recurrent import RecurrentCore as RecurrentCore
    from ding_lite.model.recurrent_qac import RecurrentQAC as RecurrentQAC
    from ding_lite.model.vac import PG as PG
    from ding_lite.model.vac import PPG as PPG
    from ding_lite.model.vac import VAC as VAC
    from ding_lite.model.vac import ActorCritic as ActorCritic
    from ding_lite.multi_agent.model.coma import COMA as COMA
    from ding_lite.multi_agent.model.mavac import HAVAC as HAVAC
    from ding_lite.multi_agent.model.mavac import MAVAC as MAVAC
    from ding_lite.multi_agent.model.mavac import DiscreteMAQAC as DiscreteMAQAC
    from ding_lite.multi_agent.model.qmix import MADQN as MADQN
    from ding_lite.multi_agent.model.qmix import QMix as QMix
    from ding_lite.multi_agent.model.qmix import WQMix as WQMix
    from ding_lite.offline.model.bc import BC as BC
    from ding_lite.offline.model.bc import ContinuousBC as ContinuousBC
    from ding_lite.offline.model.bc import DiscreteBC as DiscreteBC
    from ding_lite.offline.model.bco import BCO as BCO
    from ding_lite.offline.model.bcq import BCQ as BCQ
    from ding_lite.offline.model.decision_transformer import DecisionTransformer as DecisionTransformer
    from ding_lite.world_model.model.dreamer import Dreamer as Dreamer
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)

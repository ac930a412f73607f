"""Neural networks: encoders, heads, and the models that policies train."""

from ding_lite.model.acer import ACER
from ding_lite.model.bc import BC, ContinuousBC, DiscreteBC
from ding_lite.model.bdq import BDQ
from ding_lite.model.c51 import C51DQN, DistributionHead, RainbowDQN
from ding_lite.model.discrete_qac import DiscreteQAC
from ding_lite.model.drqn import DRQN
from ding_lite.model.encoders import FCEncoder, IMPALAConvEncoder
from ding_lite.model.fqf import FQF, FractionHead
from ding_lite.model.hybrid_qac import HybridQAC
from ding_lite.model.image import ConvEncoder
from ding_lite.model.iqn import IQN, QuantileHead
from ding_lite.model.mlp import MLP, create_encoder
from ding_lite.model.noisy import NoisyLinear
from ding_lite.model.pdqn import PDQN
from ding_lite.model.pg import PG
from ding_lite.model.q_learning import DQN, DiscreteHead, DuelingHead
from ding_lite.model.qac import QAC, QACDIST, QVAC, ContinuousQAC
from ding_lite.model.qrdqn import QRDQN
from ding_lite.model.recurrent import RecurrentCore
from ding_lite.model.sqn import SQN
from ding_lite.model.vac import VAC
from ding_lite.utils.registry import import_modules

__all__ = [
    "ACER",
    "BC",
    "BDQ",
    "C51DQN",
    "DQN",
    "DRQN",
    "FQF",
    "IQN",
    "MLP",
    "PDQN",
    "PG",
    "QAC",
    "QACDIST",
    "QRDQN",
    "QVAC",
    "SQN",
    "VAC",
    "ContinuousBC",
    "ContinuousQAC",
    "ConvEncoder",
    "DiscreteBC",
    "DiscreteHead",
    "DiscreteQAC",
    "DistributionHead",
    "DuelingHead",
    "FCEncoder",
    "FractionHead",
    "HybridQAC",
    "IMPALAConvEncoder",
    "NoisyLinear",
    "QuantileHead",
    "RainbowDQN",
    "RecurrentCore",
    "create_encoder",
]

import_modules(__name__, __path__)

"""Neural networks: encoders, heads, and the models that policies train."""

from ding_lite.model.bc import BC
from ding_lite.model.c51 import C51DQN, DistributionHead, RainbowDQN
from ding_lite.model.fqf import FQF, FractionHead
from ding_lite.model.image import ConvEncoder
from ding_lite.model.iqn import IQN, QuantileHead
from ding_lite.model.mlp import MLP, create_encoder
from ding_lite.model.noisy import NoisyLinear
from ding_lite.model.pg import PG
from ding_lite.model.q_learning import DQN, DiscreteHead, DuelingHead
from ding_lite.model.qac import QAC, QVAC
from ding_lite.model.qrdqn import QRDQN
from ding_lite.model.vac import VAC

__all__ = [
    "BC",
    "C51DQN",
    "DQN",
    "FQF",
    "IQN",
    "MLP",
    "PG",
    "QAC",
    "QRDQN",
    "QVAC",
    "VAC",
    "ConvEncoder",
    "DiscreteHead",
    "DistributionHead",
    "DuelingHead",
    "FractionHead",
    "NoisyLinear",
    "QuantileHead",
    "RainbowDQN",
    "create_encoder",
]

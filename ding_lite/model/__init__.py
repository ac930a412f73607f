"""Neural networks: encoders, heads, and the models that policies train."""

from ding_lite.model.acer import ACER
from ding_lite.model.bc import BC
from ding_lite.model.discrete_qac import DiscreteQAC
from ding_lite.model.image import ConvEncoder
from ding_lite.model.mlp import MLP, create_encoder
from ding_lite.model.noisy import NoisyLinear
from ding_lite.model.pdqn import PDQN
from ding_lite.model.pg import PG
from ding_lite.model.q_learning import DQN, DiscreteHead, DuelingHead
from ding_lite.model.qac import QAC, QVAC
from ding_lite.model.qrdqn import QRDQN
from ding_lite.model.vac import VAC

__all__ = [
    "ACER",
    "BC",
    "DQN",
    "MLP",
    "PDQN",
    "PG",
    "QAC",
    "QRDQN",
    "QVAC",
    "VAC",
    "ConvEncoder",
    "DiscreteHead",
    "DiscreteQAC",
    "DuelingHead",
    "NoisyLinear",
    "create_encoder",
]

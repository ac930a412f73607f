"""Neural networks: encoders, heads, and the models that policies train."""

from ding_lite.model.bc import BC
from ding_lite.model.bdq import BDQ
from ding_lite.model.image import ConvEncoder
from ding_lite.model.mlp import MLP, create_encoder
from ding_lite.model.noisy import NoisyLinear
from ding_lite.model.pg import PG
from ding_lite.model.q_learning import DQN, DiscreteHead, DuelingHead
from ding_lite.model.qac import QAC, QVAC
from ding_lite.model.qrdqn import QRDQN
from ding_lite.model.sqn import SQN
from ding_lite.model.vac import VAC

__all__ = [
    "BC",
    "BDQ",
    "DQN",
    "MLP",
    "PG",
    "QAC",
    "QRDQN",
    "QVAC",
    "SQN",
    "VAC",
    "ConvEncoder",
    "DiscreteHead",
    "DuelingHead",
    "NoisyLinear",
    "create_encoder",
]

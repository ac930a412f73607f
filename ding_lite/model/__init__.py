"""Networks: encoders, heads and the models that policies train."""

from ding_lite.model.network import MLP, ConvEncoder, DiscreteHead, DuelingHead, NoisyLinear, create_encoder
from ding_lite.model.pg import PG
from ding_lite.model.q_learning import DQN
from ding_lite.model.vac import VAC

__all__ = ["DQN", "MLP", "PG", "VAC", "ConvEncoder", "DiscreteHead", "DuelingHead", "NoisyLinear", "create_encoder"]

"""Networks: encoders, heads and the models that policies train."""

from ding_lite.model.network import MLP, ConvEncoder, DiscreteHead, DuelingHead, NoisyLinear, create_encoder
from ding_lite.model.q_learning import DQN

__all__ = ["DQN", "MLP", "ConvEncoder", "DiscreteHead", "DuelingHead", "NoisyLinear", "create_encoder"]

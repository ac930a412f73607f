"""The Q-network, and heads that turn features into the values of discrete actions.

Shapes: B samples, A discrete actions.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.dict_encoder import ObsShape
from ding_lite.model.mlp import MLP, ActionShape, create_encoder, single_size
from ding_lite.model.noisy import NoisyLinear
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


class DiscreteHead(MLP):
    """Maps features `[B, hidden_size]` to action values `[B, A]`.

    Args:
        hidden_size: number of features, and size of the hidden layers.
        output_size: A.
        layer_num: hidden layers before the output.
        activation: see `Activation`.
        noise: use noisy layers, see `NoisyLinear`.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        activation: Activation = "relu",
        noise: bool = False,
    ) -> None:
        linear = NoisyLinear if noise else nn.Linear
        super().__init__([hidden_size] * (layer_num + 1) + [output_size], activation, output=True, linear=linear)


class DuelingHead(nn.Module):
    """Maps features to action values, computed from a state value V and advantages A.

    Q = V + A - mean(A) (Wang et al. 2016, arXiv:1511.06581, eq. 9). Arguments as for `DiscreteHead`.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        activation: Activation = "relu",
        noise: bool = False,
    ) -> None:
        super().__init__()
        self.A = DiscreteHead(hidden_size, output_size, layer_num, activation, noise)
        self.V = DiscreteHead(hidden_size, 1, layer_num, activation, noise)

    def forward(self, x: Tensor) -> Tensor:
        """Return action values `[B, A]` for features `[B, hidden_size]`."""
        advantage_BA = self.A(x)
        return self.V(x) + advantage_BA - advantage_BA.mean(dim=-1, keepdim=True)


@MODEL_REGISTRY.register("dqn")
class DQN(nn.Module):
    """Q(s, .) for discrete actions (Mnih et al. 2015, doi:10.1038/nature14236).

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of actions.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        dueling: compute Q from a value and advantages, see `DuelingHead`.
        head_layer_num: hidden layers in the head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu'.
        noise: use noisy layers in the head, see `NoisyLinear`.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        dueling: bool = True,
        *,
        head_layer_num: int = 1,
        activation: Activation = "relu",
        noise: bool = False,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder)
        head = DuelingHead if dueling else DiscreteHead
        self.head = head(encoder_hidden_size_list[-1], single_size(action_shape), head_layer_num, activation, noise)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit`, the action values `[B, A]`, for observations `[B, ...]`."""
        return {"logit": self.head(self.encoder(obs))}

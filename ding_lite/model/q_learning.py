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
    """Maps features `[B, input_size]` to action values `[B, A]`.

    Args:
        hidden_size: size of the hidden layers.
        output_size: A.
        layer_num: hidden layers before the output.
        activation: see `Activation`.
        norm_type: normalisation of the hidden layers, see `with_norm`.
        noise: use noisy layers, see `NoisyLinear`.
        input_size: number of features, if it is not `hidden_size`.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        noise: bool = False,
        input_size: int | None = None,
    ) -> None:
        sizes = [hidden_size if input_size is None else input_size, *[hidden_size] * layer_num, output_size]
        super().__init__(sizes, activation, True, NoisyLinear if noise else nn.Linear, norm_type)


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
        norm_type: str | None = None,
        *,
        noise: bool = False,
        input_size: int | None = None,
    ) -> None:
        super().__init__()
        options = (layer_num, activation, norm_type)
        self.A = DiscreteHead(hidden_size, output_size, *options, noise=noise, input_size=input_size)
        self.V = DiscreteHead(hidden_size, 1, *options, noise=noise, input_size=input_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return action values `[B, A]` for features `[B, input_size]`."""
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
        head_hidden_size: size of the head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in the head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        noise: use noisy layers in the head, see `NoisyLinear`.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        dueling: bool = True,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        noise: bool = False,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        size = encoder_hidden_size_list[-1]
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder, norm_type)
        sizes = (head_hidden_size or size, single_size(action_shape), head_layer_num)
        head = DuelingHead if dueling else DiscreteHead
        self.head = head(*sizes, activation, norm_type, noise=noise, input_size=size)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit`, the action values `[B, A]`, for observations `[B, ...]`."""
        return {"logit": self.head(self.encoder(obs))}

"""Q-networks of discrete actions, and the heads that turn features into values.

Shapes: B samples, A discrete actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.arguments import ActionShape, ObsShape, single_size, with_arguments_of
from ding_lite.model.encoders import create_encoder
from ding_lite.model.masks import allowed_mean, find_mask, obey_mask
from ding_lite.model.mlp import MLP, Activation
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
        linear = NoisyLinear if noise else nn.Linear
        super().__init__(sizes, activation, output=True, linear=linear, norm_type=norm_type)


class DuelingHead(nn.Module):
    """Maps features to action values, computed from a state value V and advantages A.

    Q = V + A - mean(A) (Wang et al. 2016, arXiv:1511.06581, eq. 9). The mean is over the allowed actions. Arguments as
    for `DiscreteHead`.
    """

    dueling = True

    @with_arguments_of(DiscreteHead)
    def __init__(self, hidden_size: int, output_size: int, *args: Any, **options: Any) -> None:
        super().__init__()
        self.A = DiscreteHead(hidden_size, output_size, *args, **options)
        self.V = DiscreteHead(hidden_size, 1, *args, **options)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return action values `[B, A]` for features `[B, input_size]` and a mask `[B, A]`; None allows all actions."""
        advantage_BA = self.A(x)
        return self.V(x) + advantage_BA - allowed_mean(advantage_BA, mask)


class ValueNetwork(nn.Module):
    """An encoder of observations. A subclass adds the head, which computes values of discrete actions.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        head_hidden_size: size of the head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in the head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        noise: use noisy layers in the head, see `NoisyLinear`.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Attributes:
        head_options: the arguments of a head beside `output_size`, see `DiscreteHead`.
    """

    head: nn.Module

    def __init__(
        self,
        obs_shape: ObsShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        noise: bool = False,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        self.encoder = create_encoder(
            obs_shape, encoder_hidden_size_list, activation, encoder=encoder, norm_type=norm_type
        )
        size = encoder_hidden_size_list[-1]
        self.head_options: dict[str, Any] = dict(
            hidden_size=head_hidden_size or size,
            layer_num=head_layer_num,
            activation=activation,
            norm_type=norm_type,
            noise=noise,
            input_size=size,
        )

    def _values(self, x: Tensor, obs: Any) -> Any:
        """Return the head's output for features `[B, input_size]`; a dueling head gets the mask of the observations."""
        mask = find_mask(obs)
        return self.head(x) if mask is None or not getattr(self.head, "dueling", False) else self.head(x, mask)


@MODEL_REGISTRY.register("dqn")
class DQN(ValueNetwork):
    """Q(s, .) for discrete actions (Mnih et al. 2015, doi:10.1038/nature14236).

    Args:
        action_shape: number of actions.
        dueling: compute Q from a value and advantages, see `DuelingHead`.
        **options: see `ValueNetwork`.
    """

    @with_arguments_of(ValueNetwork)
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        dueling: bool = True,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, encoder_hidden_size_list, *args, **options)
        head = DuelingHead if dueling else DiscreteHead
        self.head = head(output_size=single_size(action_shape), **self.head_options)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit`, the action values `[B, A]`, for observations `[B, ...]`."""
        return {"logit": obey_mask(self._values(self.encoder(obs), obs), obs)}


@MODEL_REGISTRY.register("sqn")
class SQN(nn.Module):
    """The twin Q-networks of SQN: two independent networks for discrete actions. Arguments as for `DQN`."""

    @with_arguments_of(DQN, without=("noise",))
    def __init__(self, obs_shape: ObsShape, action_shape: ActionShape, *args: Any, **options: Any) -> None:
        super().__init__()
        self.q0, self.q1 = (DQN(obs_shape, action_shape, *args, **options) for _ in range(2))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict for observations `[B, ...]`.

        `q_value` `[2, B, A]` are the action values of both networks, and `logit` `[B, A]` those of the first.
        """
        q_CBA = torch.stack([self.q0(obs)["logit"], self.q1(obs)["logit"]])
        return {"q_value": q_CBA, "logit": q_CBA[0]}

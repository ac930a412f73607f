"""The policy network of REINFORCE, without a critic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.actor_heads import create_actor_head
from ding_lite.model.dict_encoder import ObsShape
from ding_lite.model.mlp import ActionShape, HybridShape, create_encoder
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


@MODEL_REGISTRY.register("pg")
class PG(nn.Module):
    """A policy for discrete, multi-discrete, continuous or hybrid actions.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of actions if 'discrete', of each branch's options if 'multi_discrete', of dimensions if
            'continuous'; for 'hybrid' a dict under `action_type_shape` and `action_args_shape`.
        action_space: 'discrete', 'multi_discrete', 'continuous' or 'hybrid'.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        head_hidden_size: size of the head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in the head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape | HybridShape,
        action_space: str = "discrete",
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder, norm_type)
        size = encoder_hidden_size_list[-1]
        inner = [size, *[head_hidden_size or size] * head_layer_num]
        self.head = create_actor_head(inner, action_shape, action_space, activation, norm_type=norm_type)

    def forward(self, obs: Tensor) -> dict[str, Any]:
        """Return a dict with `logit`, whose form is that of `VAC`, for observations `[B, ...]`."""
        return {"logit": self.head(self.encoder(obs))}

"""The network of behaviour cloning."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ding_lite.model.actor_heads import BOUND_TYPES, check_choice
from ding_lite.model.dict_encoder import ObsShape
from ding_lite.model.mlp import MLP, create_encoder
from ding_lite.utils.registry import MODEL_REGISTRY

ACTION_SPACES = ("discrete", "continuous", "regression")


@MODEL_REGISTRY.register("bc")
@MODEL_REGISTRY.register("discrete_bc")
@MODEL_REGISTRY.register("continuous_bc")
class BC(nn.Module):
    """Predicts an expert's action: a logit for each discrete action, or the continuous action.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of actions if 'discrete', else number of dimensions.
        action_space: 'discrete' or 'continuous'; 'regression' is DI-engine's name for 'continuous'.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        actor_head_hidden_size: size of the head's hidden layers; None: the number of features.
        actor_head_layer_num: hidden layers in the head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu'.
        bound_type: 'tanh' keeps continuous actions between -1 and 1; None: no bound.

    Raises:
        ConfigError: an argument has an unknown value.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int,
        action_space: str = "discrete",
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        actor_head_hidden_size: int | None = None,
        actor_head_layer_num: int = 1,
        activation: str = "relu",
        bound_type: str | None = "tanh",
    ) -> None:
        super().__init__()
        check_choice("action_space", action_space, ACTION_SPACES)
        check_choice("bound_type", bound_type, BOUND_TYPES)
        self._discrete, self._bound = action_space == "discrete", bound_type is not None
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation)
        size = encoder_hidden_size_list[-1]
        inner = [actor_head_hidden_size or size] * actor_head_layer_num
        self.head = MLP([size, *inner, action_shape], activation, output=True)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit` `[B, A]` or `action` `[B, D]`, for observations `[B, ...]`."""
        output = self.head(self.encoder(obs))
        if self._discrete:
            return {"logit": output}
        return {"action": torch.tanh(output) if self._bound else output}

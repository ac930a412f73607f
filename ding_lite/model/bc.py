"""The networks of behaviour cloning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.actor_heads import BOUND_TYPES, check_choice
from ding_lite.model.dict_encoder import ObsShape, feature_size
from ding_lite.model.mlp import MLP, ActionShape, create_encoder, single_size
from ding_lite.model.q_learning import DQN
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice

ACTION_SPACES = ("discrete", "continuous", "regression")


@MODEL_REGISTRY.register("bc")
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
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: an argument has an unknown value.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str = "discrete",
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        actor_head_hidden_size: int | None = None,
        actor_head_layer_num: int = 1,
        activation: Activation = "relu",
        bound_type: str | None = "tanh",
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        check_choice("action_space", action_space, ACTION_SPACES)
        check_choice("bound_type", bound_type, BOUND_TYPES)
        self._discrete, self._bound = action_space == "discrete", bound_type is not None
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder)
        size = feature_size(obs_shape, encoder_hidden_size_list)
        inner = [actor_head_hidden_size or size] * actor_head_layer_num
        self.head = MLP([size, *inner, single_size(action_shape)], activation, output=True)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit` `[B, A]` or `action` `[B, D]`, for observations `[B, ...]`."""
        output = self.head(self.encoder(obs))
        if self._discrete:
            return {"logit": output}
        return {"action": torch.tanh(output) if self._bound else output}


@MODEL_REGISTRY.register("discrete_bc")
class DiscreteBC(DQN):
    """Predicts a logit for each discrete action, with the layers of `DQN`.

    Args:
        obs_shape: see `DQN` for this and the next five.
        action_shape: number of actions.
        encoder_hidden_size_list: sizes of the encoder's layers.
        dueling: compute the logits from a value and advantages.
        head_layer_num: hidden layers in the head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu'.
        action_space: only 'discrete'.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: an argument has an unknown value.
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
        action_space: str = "discrete",
        encoder: EncoderChoice = None,
    ) -> None:
        check_choice("action_space", action_space, ACTION_SPACES[:1])
        options: dict[str, Any] = dict(head_layer_num=head_layer_num, activation=activation, encoder=encoder)
        super().__init__(obs_shape, action_shape, encoder_hidden_size_list, dueling, **options)


@MODEL_REGISTRY.register("continuous_bc")
class ContinuousBC(BC):
    """Predicts a continuous action.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of dimensions.
        action_space: 'regression' or 'continuous', which are the same.
        actor_head_hidden_size: size of the head's hidden layers.
        actor_head_layer_num: hidden layers in addition to the first one.
        activation: one of 'relu', 'tanh', 'gelu', 'elu'.
        encoder_hidden_size_list: sizes of the encoder's layers. None: vectors are passed to the head directly.
        bound_type: 'tanh' keeps actions between -1 and 1; None: no bound.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: an argument has an unknown value.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str = "regression",
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        activation: Activation = "relu",
        encoder_hidden_size_list: Sequence[int] | None = None,
        bound_type: str | None = "tanh",
        encoder: EncoderChoice = None,
    ) -> None:
        check_choice("action_space", action_space, ACTION_SPACES[1:])
        head = (actor_head_hidden_size, 1 + actor_head_layer_num)
        layers = encoder_hidden_size_list or ()
        super().__init__(obs_shape, action_shape, action_space, layers, *head, activation, bound_type, encoder)

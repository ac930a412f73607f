"""The networks of behaviour cloning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.actor_heads import BOUND_TYPES, create_actor_head
from ding_lite.model.arguments import ActionShape, ObsShape, check_choice, single_size
from ding_lite.model.encoders import create_encoder, feature_size
from ding_lite.model.mlp import MLP, Activation
from ding_lite.model.q_learning import DQN
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice

ACTION_SPACES = ("discrete", "multi_discrete", "continuous", "regression")
ELSEWHERE = {  # values of DI-engine's `ContinuousBC`
    "reparameterization": "Here a distribution is not imitated, only the action: use 'regression'.",
    "hybrid": "No model imitates hybrid actions.",
}


@MODEL_REGISTRY.register("bc")
class BC(nn.Module):
    """Predicts an expert's action: a logit for each discrete action or option, or the continuous action.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of actions if 'discrete', a list of each branch's options if 'multi_discrete', else number
            of dimensions.
        action_space: 'discrete', 'multi_discrete' or 'continuous'; 'regression' is DI-engine's name for 'continuous'.
            As in DI-engine, 'discrete' with a list of several numbers is 'multi_discrete'.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        actor_head_hidden_size: size of the head's hidden layers; None: the number of features.
        actor_head_layer_num: hidden layers in the head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
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
        norm_type: str | None = None,
        bound_type: str | None = "tanh",
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        check_choice("action_space", action_space, ACTION_SPACES, ELSEWHERE)
        check_choice("bound_type", bound_type, BOUND_TYPES)
        self._discrete, self._bound = "discrete" in action_space, bound_type is not None
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder, norm_type)
        size = feature_size(obs_shape, encoder_hidden_size_list)
        inner = [actor_head_hidden_size or size] * actor_head_layer_num
        if self._discrete:
            self.head = create_actor_head([size, *inner], action_shape, action_space, activation, norm_type=norm_type)
        else:
            self.head = MLP([size, *inner, single_size(action_shape)], activation, output=True, norm_type=norm_type)

    def forward(self, obs: Tensor) -> dict[str, Any]:
        """Return a dict with `logit` or `action`, for observations `[B, ...]`.

        A logit is `[B, A]`, or for D branches a dict of `branches` `[B, D, A]`, -inf for options that a branch lacks;
        an action is `[B, D]`.
        """
        output = self.head(self.encoder(obs))
        if self._discrete:
            return {"logit": output}
        return {"action": torch.tanh(output) if self._bound else output}


@MODEL_REGISTRY.register("discrete_bc")
class DiscreteBC(DQN):
    """Predicts a logit for each discrete action, with the layers of `DQN`.

    Args:
        obs_shape: see `DQN` for this and the next seven.
        action_shape: number of actions.
        encoder_hidden_size_list: sizes of the encoder's layers.
        dueling: compute the logits from a value and advantages.
        head_hidden_size: size of the head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in the head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
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
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        action_space: str = "discrete",
        encoder: EncoderChoice = None,
    ) -> None:
        check_choice("action_space", action_space, ACTION_SPACES[:1], {"multi_discrete": "Use policy.model.type='bc'."})
        sizes = (encoder_hidden_size_list, dueling, head_hidden_size, head_layer_num)
        super().__init__(obs_shape, action_shape, *sizes, activation, norm_type, encoder=encoder)


@MODEL_REGISTRY.register("continuous_bc")
class ContinuousBC(BC):
    """Predicts a continuous action.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of dimensions.
        action_space: 'regression' or 'continuous', which are the same.
        actor_head_hidden_size: size of the head's hidden layers.
        actor_head_layer_num: hidden layers in addition to the first one.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
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
        norm_type: str | None = None,
        encoder_hidden_size_list: Sequence[int] | None = None,
        bound_type: str | None = "tanh",
        encoder: EncoderChoice = None,
    ) -> None:
        check_choice("action_space", action_space, ACTION_SPACES[2:], ELSEWHERE)
        head = (actor_head_hidden_size, 1 + actor_head_layer_num, activation, norm_type)
        layers = encoder_hidden_size_list or ()
        super().__init__(obs_shape, action_shape, action_space, layers, *head, bound_type, encoder)

"""The networks of behaviour cloning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import torch
from torch import Tensor, nn

from ding_lite.model.actor_heads import BoundType, create_actor_head
from ding_lite.model.arguments import ActionShape, ObsShape, check_choice, single_size, with_arguments_of
from ding_lite.model.encoders import create_encoder, feature_size
from ding_lite.model.masks import obey_mask
from ding_lite.model.mlp import MLP
from ding_lite.model.q_learning import DQN, ValueNetwork
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
        action_shape: number of actions if 'discrete', a list of each branch's options if 'multi_discrete', else number
            of dimensions.
        action_space: 'discrete', 'multi_discrete' or 'continuous'; 'regression' is DI-engine's name for 'continuous'.
            As in DI-engine, 'discrete' with a list of several numbers is 'multi_discrete'.
        actor_head_hidden_size: size of the head's hidden layers; None: the number of features.
        actor_head_layer_num: hidden layers in the head before its output.
        bound_type: 'tanh' keeps continuous actions between -1 and 1; None: no bound.
        **options: see `ValueNetwork`.
    """

    @with_arguments_of(ValueNetwork, without=("head_hidden_size", "head_layer_num", "noise"))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str = "discrete",
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        actor_head_hidden_size: int | None = None,
        actor_head_layer_num: int = 1,
        *,
        bound_type: BoundType = "tanh",
        encoder: EncoderChoice = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_choice("action_space", action_space, ACTION_SPACES, elsewhere=ELSEWHERE)
        check_choice("bound_type", bound_type, get_args(BoundType))
        self._discrete, self._bound = "discrete" in action_space, bound_type is not None
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, encoder=encoder, **options)
        size = feature_size(obs_shape, encoder_hidden_size_list)
        inner = [actor_head_hidden_size or size] * actor_head_layer_num
        if self._discrete:
            self.head = create_actor_head([size, *inner], action_shape, action_space, **options)
        else:
            self.head = MLP([size, *inner, single_size(action_shape)], output=True, **options)

    def forward(self, obs: Tensor) -> dict[str, Any]:
        """Return a dict with `logit` or `action`, for observations `[B, ...]`.

        A logit is `[B, A]`, or for D branches a dict of `branches` `[B, D, A]`, -inf for options that a branch lacks;
        an action is `[B, D]`.
        """
        output = self.head(self.encoder(obs))
        if self._discrete:
            return {"logit": obey_mask(output, obs)}
        return {"action": torch.tanh(output) if self._bound else output}


@MODEL_REGISTRY.register("discrete_bc")
class DiscreteBC(DQN):
    """Predicts a logit for each discrete action, with the layers of `DQN`.

    Args:
        action_space: only 'discrete'.
        **options: see `DQN`.
    """

    @with_arguments_of(DQN, without=("noise",))
    def __init__(
        self, obs_shape: ObsShape, action_shape: ActionShape, *args: Any, action_space: str = "discrete", **options: Any
    ) -> None:
        elsewhere = {"multi_discrete": "Use policy.model.type='bc'."}
        check_choice("action_space", action_space, ACTION_SPACES[:1], elsewhere=elsewhere)
        super().__init__(obs_shape, action_shape, *args, **options)


@MODEL_REGISTRY.register("continuous_bc")
class ContinuousBC(BC):
    """Predicts a continuous action.

    Args:
        action_shape: number of dimensions.
        action_space: 'regression' or 'continuous', which are the same.
        actor_head_hidden_size: size of the head's hidden layers.
        actor_head_layer_num: hidden layers in addition to the first one.
        encoder_hidden_size_list: sizes of the encoder's layers. None: vectors are passed to the head directly.
        **options: see `BC`.
    """

    @with_arguments_of(BC)
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str = "regression",
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        *,
        encoder_hidden_size_list: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        check_choice("action_space", action_space, ACTION_SPACES[2:], elsewhere=ELSEWHERE)
        options |= dict(actor_head_hidden_size=actor_head_hidden_size, actor_head_layer_num=1 + actor_head_layer_num)
        super().__init__(obs_shape, action_shape, action_space, encoder_hidden_size_list or (), **options)

"""Actor-critic networks for hybrid actions whose critics estimate Q(s, p, x).

A hybrid action is a type, one of K, and the arguments x of all types. The critics take the type as probabilities p; a
type that was played has the probability 1. They are therefore differentiable in both parts of an action.

Shapes: B samples, K action types, D arguments, C critics (2 if twin).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.actor_heads import hybrid_sizes
from ding_lite.model.dict_encoder import ObsShape, feature_size
from ding_lite.model.gaussian import HybridHead
from ding_lite.model.mlp import MLP, HybridShape, create_encoder
from ding_lite.model.mode_model import ModeModel
from ding_lite.model.qac import ActorNetwork, CriticNetwork, RegressionHead
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


class HybridCritic(nn.Module):
    """Critics of observations and hybrid actions.

    Args:
        network: critics of observations and vectors of K + D numbers.
        num_types: K.
    """

    def __init__(self, network: CriticNetwork, num_types: int) -> None:
        super().__init__()
        self.network, self._num_types = network, num_types

    def forward(self, obs: Tensor, action: dict[str, Tensor]) -> Tensor:
        """Return values `[C, B]`.

        Args:
            obs: observations `[B, ...]`.
            action: `action_type`, probabilities `[B, K]` or the numbers of types `[B]`, and `action_args` `[B, D]`.
        """
        kind, args_BD = action["action_type"], action["action_args"]
        if not kind.is_floating_point():
            kind = nn.functional.one_hot(kind, self._num_types)
        return self.network(obs, action=torch.cat([kind.to(args_BD.dtype), args_BD], dim=-1))


@MODEL_REGISTRY.register("hybrid_qac")
class HybridQAC(ModeModel):
    """An actor and critics for hybrid actions with arguments between -1 and 1.

    The actor's two heads share its encoder only.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: a dict of K and D, under `action_type_shape` and `action_args_shape`.
        action_space: only 'hybrid', as in DI-engine.
        twin_critic: two critics instead of one.
        actor_head_hidden_size: size of the hidden layers of the actor's heads.
        actor_head_layer_num: hidden layers in addition to the first one.
        critic_head_hidden_size: size of the hidden layers of a critic's head.
        critic_head_layer_num: hidden layers in addition to the first one.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        encoder_hidden_size_list: sizes of the layers of the encoders, as for `QAC`.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: `action_shape` is not that of a hybrid action.
    """

    modes: ClassVar[tuple[str, ...]] = ("compute_actor", "compute_critic")

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: HybridShape,
        action_space: Literal["hybrid"] = "hybrid",
        twin_critic: bool = False,
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        encoder_hidden_size_list: Sequence[int] | None = None,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        num_types, num_args = hybrid_sizes(action_shape)
        layers = encoder_hidden_size_list or ()  # without layers, the vector itself is the features
        size = feature_size(obs_shape, layers)
        encoders = [create_encoder(obs_shape, layers, activation, encoder, norm_type) for _ in range(2)]
        actor_sizes = [size, *[actor_head_hidden_size] * (1 + actor_head_layer_num)]
        critic_sizes = [size + num_types + num_args, *[critic_head_hidden_size] * (1 + critic_head_layer_num)]
        action_type = MLP([*actor_sizes, num_types], activation, output=True, norm_type=norm_type)
        action_args = RegressionHead([*actor_sizes, num_args], activation, output=True, norm_type=norm_type)
        self.actor = ActorNetwork(encoders[0], HybridHead(action_type, action_args))
        critic = CriticNetwork(encoders[1], critic_sizes, activation, 1 + twin_critic, norm_type)
        self.critic = HybridCritic(critic, num_types)

    def compute_actor(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with the types' `logit` `[B, K]` and `action_args` `[B, D]` for observations `[B, ...]`."""
        output = self.actor(obs)
        return {"logit": output["action_type"], "action_args": output["action_args"]}

    def compute_critic(self, inputs: dict[str, Any]) -> dict[str, Tensor]:
        """Return a dict with `q_value` `[C, B]`.

        Args:
            inputs: `obs` `[B, ...]`; `logit` `[B, K]`, whose softmax is p; `action`, a dict with `action_args`
                `[B, D]`.
        """
        action = {"action_type": inputs["logit"].softmax(-1), "action_args": inputs["action"]["action_args"]}
        return {"q_value": self.critic(inputs["obs"], action=action)}

"""Actor-critic networks for discrete actions whose critics estimate Q(s, .).

Shapes: B samples, A discrete actions, C critics (2 if twin). `actor` and `critic` share no parameters, so each can have
its own optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ding_lite.model.arguments import ActionShape, ObsShape, single_size
from ding_lite.model.encoders import create_encoder, feature_size
from ding_lite.model.mlp import MLP, Activation
from ding_lite.model.qac import ActorNetwork, ModeModel
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


class DiscreteCriticNetwork(nn.Module):
    """Critics of all discrete actions of a state, which share only the encoder.

    Args:
        encoder: maps observations to features.
        sizes: number of features, the sizes of a critic's hidden layers, A.
        activation: see `Activation`.
        num: C.
        norm_type: normalisation of a critic's hidden layers, see `with_norm`.
    """

    def __init__(
        self,
        encoder: nn.Module,
        sizes: Sequence[int],
        activation: Activation,
        num: int,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleList(MLP(sizes, activation, output=True, norm_type=norm_type) for _ in range(num))

    def forward(self, obs: Tensor) -> Tensor:
        """Return values `[C, B, A]` for observations `[B, ...]`."""
        x = self.encoder(obs)
        return torch.stack([head(x) for head in self.heads])


@MODEL_REGISTRY.register("discrete_qac")
class DiscreteQAC(ModeModel):
    """An actor and critics Q(s, .) for discrete actions.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: A.
        twin_critic: two critics instead of one.
        actor_head_hidden_size: size of the hidden layers of the actor's head.
        actor_head_layer_num: hidden layers in addition to the first one.
        critic_head_hidden_size: size of the hidden layers of a critic's head.
        critic_head_layer_num: hidden layers in addition to the first one.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        encoder_hidden_size_list: sizes of the layers of the encoders, one encoder for the actor and one for the
            critics. None: vectors are passed to the heads directly. For images: three convolutions' channels, then the
            dense layer's size.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: `action_shape` is not a whole number.
    """

    modes: ClassVar[tuple[str, ...]] = ("compute_actor", "compute_critic")

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
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
        action_shape = single_size(action_shape)
        layers = encoder_hidden_size_list or ()  # without layers, the vector itself is the features
        size = feature_size(obs_shape, layers)
        actor_sizes = [size, *[actor_head_hidden_size] * (1 + actor_head_layer_num), action_shape]
        critic_sizes = [size, *[critic_head_hidden_size] * (1 + critic_head_layer_num), action_shape]
        encoders = [create_encoder(obs_shape, layers, activation, encoder, norm_type) for _ in range(2)]
        self.actor = ActorNetwork(encoders[0], MLP(actor_sizes, activation, output=True, norm_type=norm_type))
        self.critic = DiscreteCriticNetwork(encoders[1], critic_sizes, activation, 1 + twin_critic, norm_type)

    def compute_actor(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit` `[B, A]`."""
        return {"logit": self.actor(obs)}

    def compute_critic(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `q_value` `[C, B, A]`."""
        return {"q_value": self.critic(obs)}


@MODEL_REGISTRY.register("acer")
class ACER(ModeModel):
    """A policy over discrete actions, and Q(s, .), each with its own encoder.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: A.
        encoder_hidden_size_list: sizes of an encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        actor_head_hidden_size: size of the hidden layers of the policy's head.
        actor_head_layer_num: hidden layers in the policy's head before its output.
        critic_head_hidden_size: size of the hidden layers of the critic's head.
        critic_head_layer_num: hidden layers in the critic's head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: `action_shape` is not a whole number.
    """

    modes: ClassVar[tuple[str, ...]] = ("compute_actor", "compute_critic")

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        actor_head_hidden_size: int = 64,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        action_shape = single_size(action_shape)
        size = encoder_hidden_size_list[-1]
        actor_sizes = [size, *[actor_head_hidden_size] * actor_head_layer_num, action_shape]
        critic_sizes = [size, *[critic_head_hidden_size] * critic_head_layer_num, action_shape]
        options = (encoder_hidden_size_list, activation, encoder, norm_type)
        encoders = [create_encoder(obs_shape, *options) for _ in range(2)]
        self.actor = ActorNetwork(encoders[0], MLP(actor_sizes, activation, output=True, norm_type=norm_type))
        self.critic = DiscreteCriticNetwork(encoders[1], critic_sizes, activation, 1, norm_type)

    def compute_actor(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit` `[B, A]`."""
        return {"logit": self.actor(obs)}

    def compute_critic(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `q_value` `[B, A]`."""
        return {"q_value": self.critic(obs)[0]}

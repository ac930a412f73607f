"""The actor-critic network of ACER.

Shapes: B samples, A discrete actions. `actor` and `critic` share no parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from ding_lite.model.activations import Activation
from ding_lite.model.dict_encoder import ObsShape
from ding_lite.model.discrete_qac import DiscreteCriticNetwork
from ding_lite.model.mlp import MLP, ActionShape, create_encoder, single_size
from ding_lite.model.mode_model import ModeModel
from ding_lite.model.qac import ActorNetwork
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


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

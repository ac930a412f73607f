"""Actor-critic networks for discrete actions whose critics estimate Q(s, .).

Shapes: B samples, A discrete actions, C critics (2 if twin). `actor` and `critic` share no parameters, so each can have
its own optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from ding_lite.model.arguments import ActionShape, ObsShape, single_size, with_arguments_of
from ding_lite.model.mlp import MLP
from ding_lite.model.qac import ActorNetwork, CriticNetwork
from ding_lite.model.vac import ActorCritic
from ding_lite.utils.registry import MODEL_REGISTRY


@MODEL_REGISTRY.register("discrete_qac")
class DiscreteQAC(ActorCritic):
    """An actor and critics Q(s, .) for discrete actions.

    Args:
        action_shape: A.
        twin_critic: two critics instead of one.
        **options: see `ActorCritic`.
    """

    @with_arguments_of(ActorCritic)
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        twin_critic: bool = False,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, *args, **options)
        number, encoders = single_size(action_shape), [self.new_encoder() for _ in range(2)]
        actor_sizes, critic_sizes = [self.size, *self.actor_sizes, number], [self.size, *self.critic_sizes]
        self.actor = ActorNetwork(encoders[0], MLP(actor_sizes, output=True, **self.layer_options))
        self.critic = CriticNetwork(encoders[1], critic_sizes, 1 + twin_critic, number, **self.layer_options)

    def compute_actor(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit` `[B, A]`."""
        return {"logit": self.actor(obs)}

    def compute_critic(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `q_value` `[C, B, A]`."""
        return {"q_value": self.critic(obs)}


@MODEL_REGISTRY.register("acer")
class ACER(DiscreteQAC):
    """The network of ACER: a policy over discrete actions, and Q(s, .), each with its own encoder.

    Args:
        encoder_hidden_size_list: sizes of an encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        actor_head_layer_num: hidden layers in the policy's head before its output.
        critic_head_layer_num: hidden layers in the critic's head before its output; None: 1.
        **options: see `DiscreteQAC`.
    """

    first_layers: ClassVar[int] = 0

    @with_arguments_of(DiscreteQAC, without=("twin_critic",))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        **options: Any,
    ) -> None:
        options["encoder_hidden_size_list"] = encoder_hidden_size_list
        super().__init__(obs_shape, action_shape, twin_critic=False, **options)

    def compute_critic(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `q_value` `[B, A]`."""
        return {"q_value": self.critic(obs)[0]}

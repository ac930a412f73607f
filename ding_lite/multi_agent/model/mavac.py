"""Actor-critics of several agents: a policy of each, and values of what a central critic sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ding_lite.model.arguments import ObsShape, with_arguments_of
from ding_lite.model.encoders import PartEncoder, create_encoder, feature_size
from ding_lite.model.mlp import MLP
from ding_lite.model.qac import ActorNetwork, CriticNetwork, DiscreteQAC
from ding_lite.model.recurrent import create_core
from ding_lite.model.vac import VAC, ActorCritic, init_orthogonal
from ding_lite.multi_agent.model.agents import agent_shape, needed, of_agent
from ding_lite.utils.registry import MODEL_REGISTRY
from ding_lite.utils.tree import GLOBAL, MASK, STATE

CENTRAL = ("policy.model.centralized_critic=True", "set policy.model.centralized_critic=False")


@MODEL_REGISTRY.register("mavac")
class MAVAC(VAC):
    """`VAC` for one of several agents, whose observations are rows of `fold_agents`.

    Policy and value share no layers; with `lstm_type`, each remembers what it has seen.

    Args:
        agent_num: number of agents.
        obs_shape: shape of what one agent observes, `agent_state` without the dimension of the agents.
        action_shape: number of actions of each agent, of dimensions if they are 'continuous'.
        global_obs_shape: shape of `global_state`; None: the observations have none.
        encoder_hidden_size_list: sizes of an encoder's layers; None: one layer of the size of the head that follows it,
            or those of `VAC` for images and with `encoder`.
        actor_head_hidden_size: size of the hidden layers of the policy's head.
        critic_head_hidden_size: size of the hidden layers of the value's head.
        centralized_critic: the value is of `global_state`; False: of what the agent observes, which is IPPO.
        agent_id: the policy, and the value without `centralized_critic`, also see the number of the agent.
        **options: see `VAC`.
    """

    @with_arguments_of(VAC, without=("share_encoder", "critic_obs"))
    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        action_shape: int,
        global_obs_shape: ObsShape | None = None,
        encoder_hidden_size_list: Sequence[int] | None = None,
        actor_head_hidden_size: int = 256,
        actor_head_layer_num: int = 2,
        critic_head_hidden_size: int = 512,
        critic_head_layer_num: int = 1,
        *,
        centralized_critic: bool = True,
        agent_id: bool = True,
        **options: Any,
    ) -> None:
        state = agent_shape(obs_shape, agent_num, agent_id)
        viewed = needed(global_obs_shape, *CENTRAL) if centralized_critic else state
        options |= dict(actor_head_hidden_size=actor_head_hidden_size, actor_head_layer_num=actor_head_layer_num)
        options |= dict(critic_head_hidden_size=critic_head_hidden_size, critic_head_layer_num=critic_head_layer_num)
        layers = encoder_hidden_size_list or _layers_before(actor_head_hidden_size, state)
        critic_layers = encoder_hidden_size_list or _layers_before(critic_head_hidden_size, viewed)
        seen = {STATE: state} if options.get("action_space") == "continuous" else {STATE: state, MASK: action_shape}
        super().__init__(seen, action_shape, share_encoder=False, encoder_hidden_size_list=layers, **options)
        if centralized_critic or not encoder_hidden_size_list:
            own = dict(obs_shape=viewed if centralized_critic else seen, hidden_size_list=critic_layers)
            encoder = create_encoder(**self._encoder_options | own)
            self.critic_encoder = PartEncoder(encoder, {GLOBAL: viewed}, GLOBAL) if centralized_critic else encoder
        if not encoder_hidden_size_list:
            size = critic_layers[-1]
            self.critic_head = MLP([size, *self.critic_sizes, 1], output=True, **self.layer_options)
            if self._recurrent:
                self.critic_core = create_core(size, options.get("lstm_type"), options.get("memory"))


@MODEL_REGISTRY.register("discrete_maqac")
class DiscreteMAQAC(DiscreteQAC):
    """`DiscreteQAC` for one of several agents, whose observations are rows of `fold_agents`.

    Args:
        agent_num: number of agents.
        obs_shape: shape of what one agent observes, `agent_state` without the dimension of the agents.
        action_shape: A, the number of actions of each agent.
        global_obs_shape: shape of `global_state`; None: the observations have none.
        centralized_critic: the critics see `global_state` and what the agent observes; False: only the latter.
        agent_id: policy and critics also see the number of the agent.
        **options: see `DiscreteQAC`.
    """

    @with_arguments_of(DiscreteQAC, without=("critic_obs",))
    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        action_shape: int,
        global_obs_shape: ObsShape | None = None,
        *,
        centralized_critic: bool = True,
        agent_id: bool = True,
        **options: Any,
    ) -> None:
        seen = {STATE: agent_shape(obs_shape, agent_num, agent_id), MASK: action_shape}
        super().__init__(seen, action_shape, **options)
        if not centralized_critic:
            return
        shape = {STATE: seen[STATE], GLOBAL: needed(global_obs_shape, *CENTRAL)}
        encoder = create_encoder(**self._encoder_options | {"obs_shape": shape})
        sizes = [feature_size(shape, self._encoder_options["hidden_size_list"]), *self.critic_sizes]
        self.critic = CriticNetwork(encoder, sizes, len(self.critic.heads), action_shape, **self.layer_options)


@MODEL_REGISTRY.register("havac")
class HAVAC(ActorCritic):
    """A policy for each of several agents, with networks of its own, and one value of the state of the whole task.

    Args:
        agent_num: M, the number of agents.
        obs_shape: shape of what one agent observes, `agent_state` without the dimension of the agents.
        action_shape: A, the number of actions of each agent.
        global_obs_shape: shape of `global_state`, which has no dimension of the agents.
        actor_head_layer_num: hidden layers in the head of a policy before its output.
        critic_head_layer_num: hidden layers in the head of the value before its output.
        **options: see `ActorCritic`.
    """

    modes: ClassVar[tuple[str, ...]] = VAC.modes
    first_layers: ClassVar[int] = 0

    @with_arguments_of(ActorCritic, without=("critic_obs",))
    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        action_shape: int,
        global_obs_shape: ObsShape | None = None,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        *,
        actor_head_layer_num: int = 2,
        **options: Any,
    ) -> None:
        seen = {STATE: obs_shape, MASK: action_shape}
        options |= dict(encoder_hidden_size_list=encoder_hidden_size_list, actor_head_layer_num=actor_head_layer_num)
        super().__init__(seen, **options)
        instead = "use 'mappo' with policy.model.centralized_critic=False"
        global_obs_shape = needed(global_obs_shape, "The value of all agents", instead)
        sizes = [self.size, *self.actor_sizes, action_shape]
        self.actors = nn.ModuleList(
            ActorNetwork(self.new_encoder(), MLP(sizes, output=True, **self.layer_options)) for _ in range(agent_num)
        )
        encoder = create_encoder(**self._encoder_options | {"obs_shape": global_obs_shape})
        size = feature_size(global_obs_shape, encoder_hidden_size_list)
        self.critic = CriticNetwork(encoder, [size, *self.critic_sizes], num=1, **self.layer_options)

    def compute_actor(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return a dict with `logit` `[B, M, A]`, for observations `[B, M, ...]`."""
        return {"logit": torch.stack([actor(of_agent(obs, m)) for m, actor in enumerate(self.actors)], 1)}

    def compute_critic(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return a dict with `value` `[B]`."""
        return {"value": self.critic(of_agent(obs, 0)[GLOBAL])[0]}

    def compute_actor_critic(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return a dict with `logit` `[B, M, A]` and `value` `[B]`."""
        return self.compute_actor(obs) | self.compute_critic(obs)

    @property
    def value_layer(self) -> nn.Module:
        """The linear layer that returns the value."""
        return self.critic.heads[0][-1]  # type: ignore[index]  # heads are MLPs

    def init_parameters(self) -> None:
        """Initialise the networks in place, see `init_orthogonal`; the last layer of the value has gain 1."""
        heads = nn.ModuleList(actor.head for actor in self.actors)  # type: ignore[misc]  # each is an ActorNetwork
        init_orthogonal(self, heads, {self.value_layer: 1.0})


def _layers_before(head_size: int, shape: ObsShape) -> Sequence[int]:
    """Return the sizes of the layers of an encoder: as DI-engine's MAPPO has them for vectors, as `VAC` for images."""
    vector = isinstance(shape, int) or (isinstance(shape, Sequence) and len(shape) == 1)
    return [head_size] if vector else (128, 128, 64)

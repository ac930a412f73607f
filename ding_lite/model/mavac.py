"""Actor-critics of several agents: a policy of each, and values of what a central critic sees."""

from __future__ import annotations

from typing import Any

from ding_lite.model.agents import GLOBAL, STATE, agent_shape
from ding_lite.model.arguments import ObsShape, with_arguments_of
from ding_lite.model.discrete_qac import DiscreteQAC
from ding_lite.model.encoders import UnmaskedEncoder, create_encoder, feature_size
from ding_lite.model.qac import CriticNetwork
from ding_lite.model.vac import VAC
from ding_lite.torch_utils.normalizer import MASK
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError


@MODEL_REGISTRY.register("mavac")
class MAVAC(VAC):
    """`VAC` for one of several agents, whose observations are rows of `fold_agents`.

    Args:
        agent_num: number of agents.
        obs_shape: shape of what one agent observes, `agent_state` without the dimension of the agents.
        action_shape: number of actions of each agent.
        global_obs_shape: shape of `global_state`; None: the observations have none.
        centralized_critic: the value is of `global_state`; False: of what the agent observes, which is IPPO.
        agent_id: the policy, and the value without `centralized_critic`, also see the number of the agent.
        **options: see `VAC`.
    """

    @with_arguments_of(
        VAC, without=("share_encoder", "action_space", "lstm_type", "memory", "sigma_type", "fixed_sigma_value")
    )
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
        super().__init__(seen, action_shape, share_encoder=False, **options)
        if not centralized_critic:
            return
        encoder = create_encoder(**self._encoder_options | {"obs_shape": needed(global_obs_shape)})
        self.critic_encoder = UnmaskedEncoder(encoder, GLOBAL)


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

    @with_arguments_of(DiscreteQAC)
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
        shape = {STATE: seen[STATE], GLOBAL: needed(global_obs_shape)}
        encoder = create_encoder(**self._encoder_options | {"obs_shape": shape})
        sizes = [feature_size(shape, self._encoder_options["hidden_size_list"]), *self.critic_sizes]
        self.critic = CriticNetwork(encoder, sizes, len(self.critic.heads), action_shape, **self.layer_options)


def needed(global_obs_shape: ObsShape | None) -> ObsShape:
    """Return the shape of the global state that a central critic sees; raise `ConfigError` if there is none."""
    if global_obs_shape is None:
        raise ConfigError(
            "policy.model.centralized_critic=True needs the key global_state in the observations, which shows the "
            "state of the whole task: add it to the environment, or set policy.model.centralized_critic=False."
        )
    return global_obs_shape

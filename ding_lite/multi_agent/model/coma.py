"""The networks of COMA: a policy that all agents share, and a critic that sees the others' actions.

Shapes: T rows of a sequence, B sequences, M agents, A actions of each, F features of what an agent observes, G features
of the global state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.arguments import ObsShape
from ding_lite.model.masks import one_hot
from ding_lite.model.mlp import MLP, Activation
from ding_lite.model.recurrent import LSTMType
from ding_lite.multi_agent.model.agents import fold_agents
from ding_lite.multi_agent.model.qmix import QMix
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError
from ding_lite.utils.tree import GLOBAL, STATE


@MODEL_REGISTRY.register("coma")
class COMA(nn.Module):
    """`actor`, the policy of each agent given what it has observed, and `critic` (Foerster et al. 2018, fig. 1).

    Args:
        agent_num: M.
        obs_shape: F; the agents observe vectors.
        action_shape: A.
        global_obs_shape: G, the length of `global_state`.
        encoder_hidden_size_list: sizes of the layers of the actor; the last one is also that of the recurrent state.
        lstm_type: the actor's memory: 'gru', 'pytorch', an LSTM, or 'normal', one with layer normalisation; None: none.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        agent_id: the actor also sees the number of its agent, as a one-hot vector; the critic always does.
        critic_hidden_size_list: sizes of the layers of the critic; None: two layers of the actor's last size.
    """

    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        action_shape: int,
        global_obs_shape: int | None = None,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        lstm_type: LSTMType | None = "normal",
        activation: Activation = "relu",
        agent_id: bool = True,
        critic_hidden_size_list: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(obs_shape, int) or global_obs_shape is None:
            raise ConfigError(
                "the critic of COMA needs vectors: expected agent_state [M, F] and global_state [G] in the "
                f"observations, got agent_state of each agent {obs_shape} and global_state {global_obs_shape}: change "
                "the environment, or choose another policy, such as 'mappo'."
            )
        hidden, shapes = list(encoder_hidden_size_list), (agent_num, obs_shape, action_shape)
        options: dict[str, Any] = dict(lstm_type=lstm_type, activation=activation, agent_id=agent_id)
        self.actor = QMix(*shapes, encoder_hidden_size_list=hidden, mixer=False, **options)
        seen = obs_shape + agent_num + global_obs_shape + agent_num * action_shape
        critic_hidden = critic_hidden_size_list or [hidden[-1]] * 2
        self.critic = MLP([seen, *critic_hidden, action_shape], activation, output=True)
        self._action_shape = action_shape

    def forward(self, obs: dict[str, Tensor], mode: str = "compute_actor", **options: Any) -> dict[str, Any]:
        """Return the result of the method named `mode`, 'compute_actor' or 'compute_critic'."""
        return self.compute_critic(obs, **options) if mode == "compute_critic" else self.actor(obs, **options)

    def compute_critic(self, obs: dict[str, Tensor], action: Tensor) -> dict[str, Tensor]:
        """Return `q_value` `[T, B, M, A]`: Q of each action of an agent while the others take theirs.

        Args:
            obs: `agent_state` `[T, B, M, F]` and `global_state` `[T, B, G]`.
            action: `[T, B, M]`, what the agents did; that of the agent itself is not used.
        """
        seen = fold_agents({key: obs[key] for key in (STATE, GLOBAL)}, 1, agent_id=True)
        played = one_hot(action, self._action_shape).to(seen[STATE].dtype)
        agents = torch.eye(action.shape[-1], dtype=played.dtype, device=played.device)
        others = (played.unsqueeze(-3) * (1.0 - agents).unsqueeze(-1)).flatten(-2)  # [T, B, M, M A]
        q_value = self.critic(torch.cat([seen[STATE], seen[GLOBAL], others.flatten(1, 2)], -1))
        return {"q_value": q_value.unflatten(1, action.shape[1:])}

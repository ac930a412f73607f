"""The network of QMIX and VDN: one Q-network for all agents, and a mixer of the values of their actions.

Shapes: B samples, T rows of a sequence, M agents, A actions of each, F features, G features of the global state, E
features of the mixer. X stands for any leading dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.arguments import ObsShape, with_arguments_of
from ding_lite.model.mlp import MLP, Activation
from ding_lite.model.q_learning import DQN
from ding_lite.model.recurrent import DRQN, LSTMType
from ding_lite.multi_agent.model.agents import agent_shape, fold_agents, needed, pick_active
from ding_lite.utils.registry import MODEL_REGISTRY
from ding_lite.utils.tree import GLOBAL, MASK, STATE, tree_map


class Mixer(nn.Module):
    """Mixes the values of the agents' actions to Q_tot, which rises with each of them (Rashid et al. 2018, fig. 2).

    The weights of two layers are the absolute values of what hypernetworks return for the global state.
    """

    def __init__(self, agent_num: int, state_size: int, size: int, hypernet_size: int = 64) -> None:
        super().__init__()
        self._shape = (agent_num, size)
        self.weight_1 = MLP([state_size, hypernet_size, agent_num * size], output=True)
        self.bias_1 = nn.Linear(state_size, size)
        self.weight_2 = MLP([state_size, hypernet_size, size], output=True)
        self.bias_2 = MLP([state_size, size, 1], output=True)

    def forward(self, q_XM: Tensor, state_XG: Tensor) -> Tensor:
        """Return Q_tot `[...]`."""
        weight_XME = self.weight_1(state_XG).abs().unflatten(-1, self._shape)
        hidden_XE = functional.elu((q_XM.unsqueeze(-1) * weight_XME).sum(-2) + self.bias_1(state_XG))
        return (hidden_XE * self.weight_2(state_XG).abs()).sum(-1) + self.bias_2(state_XG).squeeze(-1)


@MODEL_REGISTRY.register("qmix")
class QMix(nn.Module):
    """Q_m(o, .) of each agent m, by a network that all agents share, and Q_tot (Rashid et al. 2018, arXiv:1803.11485).

    Args:
        agent_num: M.
        obs_shape: shape of what one agent observes, `agent_state` without the dimension of the agents.
        action_shape: A.
        global_obs_shape: G, the length of `global_state`; None: the observations have none.
        encoder_hidden_size_list: sizes of the encoder's layers; the last one is also that of the recurrent state and of
            the mixer.
        mixer: mix the values of the agents; False: Q_tot is their sum, which is VDN (Sunehag et al. 2017).
        lstm_type: the agents' memory: 'gru', 'pytorch', an LSTM, or 'normal', one with layer normalisation; None: none.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        dueling: compute Q_m from a value and advantages, see `DuelingHead`.
        agent_id: the network also sees the number of its agent, as a one-hot vector.
    """

    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        action_shape: int,
        global_obs_shape: int | None = None,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        mixer: bool = True,
        lstm_type: LSTMType | None = "gru",
        activation: Activation = "relu",
        dueling: bool = False,
        agent_id: bool = True,
    ) -> None:
        super().__init__()
        self.agent_num, self._agent_id = agent_num, agent_id
        shape = {STATE: agent_shape(obs_shape, agent_num, agent_id), MASK: action_shape}
        network: Any = partial(DRQN, lstm_type=lstm_type) if lstm_type else DQN
        self.q_network = network(shape, action_shape, encoder_hidden_size_list, dueling=dueling, activation=activation)
        self.recurrent = lstm_type is not None
        self.mixer = None
        if mixer:
            state_size = needed(global_obs_shape, "policy.model.mixer=True", "set policy.model.mixer=False")
            self.mixer = Mixer(agent_num, state_size, encoder_hidden_size_list[-1])

    def forward(self, inputs: Any, mode: str = "compute_q", **options: Any) -> dict[str, Any]:
        """Return the result of the method named `mode`, 'compute_q' or 'mix'."""
        return self.mix(inputs, **options) if mode == "mix" else self.compute_q(inputs, **options)

    def mix(self, state_XG: Tensor | None, q_XM: Tensor) -> dict[str, Tensor]:
        """Return `total_q` `[...]` for the values of the agents' actions; without a mixer, the state is not used."""
        return {"total_q": q_XM.sum(-1) if self.mixer is None else self.mixer(q_XM, state_XG)}

    def compute_q(
        self,
        obs: dict[str, Tensor],
        prev_state: Any = None,
        episode_start: Tensor | None = None,
        final_index: Tensor | None = None,
    ) -> dict[str, Any]:
        """Return `logit` `[T, B, M, A]`, the action values, and states `[B, M, ...]`.

        Args:
            obs: `agent_state` `[T, B, M, ...]`, and `action_mask` `[T, B, M, A]` if there is one.
            prev_state: see `run_core` for this and the following. A network without memory has the state {}.
            episode_start: `[T, B]`.
            final_index: `[K]`.
        """
        num, rows = self.agent_num, obs[STATE].shape[:3]
        own = fold_agents({key: obs[key] for key in (STATE, MASK) if key in obs}, 1, self._agent_id)
        if not self.recurrent:
            output = self.q_network(tree_map(lambda leaf: leaf.flatten(0, 1), own))
            return {"logit": output["logit"].unflatten(0, rows), "next_state": {}, "final_state": {}}
        if prev_state is not None:
            prev_state = tree_map(lambda leaf: leaf.flatten(0, 1), prev_state)
        if episode_start is not None:
            episode_start = episode_start.repeat_interleave(num, 1)
        if final_index is not None:
            final_index = (final_index[:, None] * num + torch.arange(num, device=final_index.device)).flatten()
        output = self.q_network(own, prev_state=prev_state, episode_start=episode_start, final_index=final_index)
        states = tree_map(lambda leaf: leaf.unflatten(0, (-1, num)), {**output, "logit": {}})
        return states | {"logit": output["logit"].unflatten(1, rows[1:])}


class JointMixer(nn.Module):
    """Mixes the values of the agents' actions to a value of all of them, without a restriction."""

    def __init__(self, agent_num: int, state_size: int, size: int = 256) -> None:
        super().__init__()
        self.advantage = MLP([state_size + agent_num, size, size, size, 1], output=True)
        self.bias = MLP([state_size, size, 1], output=True)

    def forward(self, q_XM: Tensor, state_XG: Tensor) -> Tensor:
        """Return the value `[...]`."""
        return (self.advantage(torch.cat([state_XG, q_XM], -1)) + self.bias(state_XG)).squeeze(-1)


class QMixPair(nn.Module):
    """Two networks of QMIX with the same agents; the first one acts.

    A subclass assigns both to the attributes that `names` has.
    """

    names: tuple[str, str]

    def forward(self, inputs: Any, mode: str = "compute_q", **options: Any) -> dict[str, Any]:
        """Return the result of the method named `mode`, 'compute_q' or 'mix'."""
        return self.mix(inputs, **options) if mode == "mix" else self.compute_q(inputs, **options)

    def mix(self, state_XG: Tensor | None, q_X2MA: Tensor, action_XM: Tensor) -> dict[str, Tensor]:
        """Return `total_q` `[..., 2]`, what each network's mixer makes of the values of these actions."""
        q_X2M = pick_active(q_X2MA, action_XM.unsqueeze(-2).expand(q_X2MA.shape[:-1]))
        totals = [getattr(self, name).mix(state_XG, q_X2M[..., i, :])["total_q"] for i, name in enumerate(self.names)]
        return {"total_q": torch.stack(totals, -1)}

    def compute_q(self, obs: dict[str, Tensor], prev_state: Any = None, **sequence: Any) -> dict[str, Any]:
        """Return `logit` `[T, B, M, A]`, those of the first network, `both` `[T, B, 2, M, A]`, and states."""
        before, seen = prev_state or dict.fromkeys(self.names), self.observed(obs)
        parts = {
            name: getattr(self, name)(own, prev_state=before[name], **sequence)
            for name, own in zip(self.names, seen, strict=True)
        }
        logits = [part.pop("logit") for part in parts.values()]
        states = {key: {name: part[key] for name, part in parts.items()} for key in parts[self.names[0]]}
        return states | {"logit": logits[0], "both": torch.stack(logits, 2)}

    def observed(self, obs: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return what each network sees."""
        return obs, obs


@MODEL_REGISTRY.register("wqmix")
class WQMix(QMixPair):
    """QMIX: `tot`, and `star`, whose mixer is not restricted (Rashid et al. 2020, arXiv:2006.10800).

    Args:
        global_obs_shape: G, the length of `global_state`.
        **options: see `QMix`.
    """

    names = ("tot", "star")

    @with_arguments_of(QMix, without=("mixer",))
    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        action_shape: int,
        global_obs_shape: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        state_size = needed(global_obs_shape, "Each of both mixers", "use 'qmix' with policy.model.mixer=False")
        shapes = (agent_num, obs_shape, action_shape, state_size)
        self.tot, self.star = (QMix(*shapes, **options) for _ in range(2))
        self.star.mixer = JointMixer(agent_num, state_size)  # type: ignore[assignment]


@MODEL_REGISTRY.register("madqn")
class MADQN(QMixPair):
    """The agents' network: `current`, and `cooperation`, in which each agent sees `global_state` instead of its own.

    Args:
        global_obs_shape: G, the length of `global_state`, of all agents or of each.
        mixer: both networks mix the values of the agents; False: they add them.
        global_cooperation: False: `cooperation` sees what the agents observe, too.
        **options: see `QMix`.
    """

    names = ("current", "cooperation")

    @with_arguments_of(QMix)
    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        action_shape: int,
        global_obs_shape: int | None = None,
        *,
        mixer: bool = False,
        global_cooperation: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        self._global, shapes, key = global_cooperation, [obs_shape, obs_shape], "policy.model.global_cooperation"
        if global_cooperation:
            shapes[1] = needed(global_obs_shape, f"{key}=True", f"set {key}=False")
        self.current, self.cooperation = (
            QMix(agent_num, shape, action_shape, global_obs_shape, mixer=mixer, **options) for shape in shapes
        )

    def observed(self, obs: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the observations, and those with the global state in place of `agent_state`."""
        if not self._global:
            return obs, obs
        state = obs[GLOBAL]
        if state.ndim == 3:  # one state for all agents
            state = state.unsqueeze(2).expand(*obs[STATE].shape[:3], -1)
        return obs, {**obs, STATE: state}

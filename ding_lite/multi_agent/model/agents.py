"""Several agents in one network: the observations of each are rows of a batch.

Shapes: B samples or environments, M agents, A actions of each, F features, G features of the global state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ding_lite.model.arguments import ObsShape
from ding_lite.torch_utils.normalizer import active_agents
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import GLOBAL, MASK, STATE


def agent_shape(obs_shape: ObsShape, agent_num: int, agent_id: bool) -> Any:
    """Return the shape of `agent_state` in what `fold_agents` returns."""
    sizes = [obs_shape] if isinstance(obs_shape, int) else obs_shape
    if not agent_id:
        return obs_shape
    if isinstance(sizes, Mapping) or len(sizes) != 1:
        raise ConfigError(
            f"policy.model.agent_id=True adds the agent's number to a vector, but the agents observe {obs_shape}: set "
            "policy.model.agent_id=False."
        )
    return sizes[0] + agent_num


def needed(global_obs_shape: ObsShape | None, by: str, instead: str) -> Any:
    """Return the shape of the global state; raise `ConfigError` if there is none, though `by` needs it."""
    if global_obs_shape is None:
        raise ConfigError(
            f"{by} needs the key global_state in the observations, which shows the state of the whole task: add it to "
            f"the environment, or {instead}."
        )
    return global_obs_shape


def of_agent(obs: Mapping[str, Tensor], agent: int) -> dict[str, Tensor]:
    """Return what one agent sees of observations `[B, M, ...]`, `[B, ...]`.

    All see the same global state: `[B, G]`, or of one for each agent, `[B, M, G]`, that of the first in the game.
    """
    seen = {key: part[:, agent] for key, part in obs.items() if key != GLOBAL}
    if GLOBAL in obs:
        seen[GLOBAL] = obs[GLOBAL]
        if seen[GLOBAL].ndim == 3:
            active_BM = active_agents(obs)
            first_B = 0 if active_BM is None else active_BM.int().argmax(1)
            seen[GLOBAL] = seen[GLOBAL][torch.arange(len(seen[GLOBAL])), first_B]
    return seen


def stand_ins(active_XM: Tensor) -> Tensor:
    """Return whose data each agent has, `[..., M]`: its own, or if it is out of the game, those of the first one in it.

    All agents share the reward, so an agent that is out of the game can expect the return that any other expects.
    """
    own_M = torch.arange(active_XM.shape[-1], device=active_XM.device)
    return own_M.where(active_XM, active_XM.int().argmax(-1, keepdim=True))


def pick_active(q_XMA: Tensor, action_XM: Tensor) -> Tensor:
    """Return the values of the agents' actions, `[..., M]`, and 0 for agents that are out of the game.

    Args:
        q_XMA: values, -inf for the actions that masks forbid, which also shows who is out, see `active_agents`.
        action_XM: integers.
    """
    choice_XM = (~q_XMA.isneginf()).sum(-1) > 1
    out_XM = ~choice_XM & choice_XM.any(-1, keepdim=True)
    return q_XMA.gather(-1, action_XM.unsqueeze(-1)).squeeze(-1).masked_fill(out_XM, 0.0)


def fold_agents(obs: Mapping[str, Tensor], dim: int, agent_id: bool) -> dict[str, Tensor]:
    """Return the observations of all agents as rows: dimension `dim`, of B, becomes one of B M, agents last.

    Args:
        obs: `agent_state` `[..., B, M, ...]`, and if there are any, `action_mask` `[..., B, M, A]`, and `global_state`
            `[..., B, G]`, which all agents get, or `[..., B, M, G]`.
        dim: the dimension of B.
        agent_id: add the agent's number, as a one-hot vector, to what it observes if that is a vector.
    """
    state = obs[STATE]
    num = state.shape[dim + 1]
    if agent_id and state.ndim == dim + 3:
        number = torch.eye(num, dtype=state.dtype, device=state.device)
        state = torch.cat([state, number.expand(*state.shape[:-1], num)], -1)
    folded = {STATE: state, **{key: obs[key] for key in (MASK, GLOBAL) if key in obs}}
    if GLOBAL in folded and folded[GLOBAL].ndim == dim + 2:
        folded[GLOBAL] = folded[GLOBAL].unsqueeze(dim + 1).expand(*state.shape[: dim + 2], -1)
    return {key: part.flatten(dim, dim + 1) for key, part in folded.items()}

"""Several agents as rows: with `multi_agent=True`, each agent of a sample is a sample for a policy of one agent.

The agents share the networks, the reward and the ends of episodes. `Policy` folds what its methods for acting and
learning get, and unfolds what they return, so the algorithms know nothing of agents.

Shapes: B samples, N environments, T steps, M agents, K ended episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch

from ding_lite.model.agents import STATE, fold_agents
from ding_lite.torch_utils.normalizer import OBS_KEYS
from ding_lite.utils.tree import tree_map


class AgentRows:
    """Folds the agents of a policy into rows, and unfolds rows.

    Args:
        agent_id: add the agent's number to its observations, see `fold_agents`.
        columns: keys of the columns that each agent has of its own, `[B, M, ...]`. It gets all others as they are.
    """

    def __init__(self, agent_id: bool, columns: Collection[str]) -> None:
        self._agent_id, self._columns = agent_id, columns

    def fold(self, data: dict[str, Any], dim: int = 0) -> dict[str, Any]:
        """Return a batch `[B, ...]` as one of `[B M, ...]`, or with `dim` 1 a block `[T, N, ...]` as `[T, N M, ...]`.

        The dimension of `last_obs` and `final_obs`, which have no steps, is 0 in both cases.
        """
        num, rows = data["obs"][STATE].shape[dim + 1], {}
        for key, column in data.items():
            if key in OBS_KEYS:
                rows[key] = fold_agents(column, dim if key == "obs" else 0, self._agent_id)
            elif key in self._columns:
                rows[key] = tree_map(lambda leaf: leaf.flatten(dim, dim + 1), column)
            elif key == "final_index":  # each agent is an environment of its own
                rows[key] = (column[:, None] * num + torch.arange(num, device=column.device)).flatten()
            elif column.ndim > dim:
                rows[key] = column.repeat_interleave(num, dim)
        return rows

    def act(self, act: Callable[[Any], dict[str, Any]], obs: Any, memory: dict[str, Any]) -> dict[str, Any]:
        """Return the output `[N, M, ...]` of a method that acts on rows, for observations `[N, M, ...]`.

        Args:
            act: the method.
            obs: the observations of all agents.
            memory: the policy's memory of running episodes, `[N, M, ...]`, which the method changes.
        """
        num = obs[STATE].shape[1]
        memory.update(tree_map(lambda leaf: leaf.flatten(0, 1), memory))
        output = act(fold_agents(obs, 0, self._agent_id))
        memory.update(unfold(memory, num))
        return unfold(output, num)


def unfold(rows: Any, num: int) -> Any:
    """Return tensors `[B M, ...]`, or nested dicts of these, as `[B, M, ...]` for `num` M."""
    return tree_map(lambda leaf: leaf.unflatten(0, (-1, num)), rows)

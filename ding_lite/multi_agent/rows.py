"""Several agents as rows: with `multi_agent=True`, each agent of a sample is a sample for a policy of one agent.

The agents share the networks, the reward and the ends of episodes. `AgentPolicy` stands in front of a policy's class:
it folds what the policy's methods for acting and learning get, and unfolds what they return. The algorithms and their
base class know nothing of agents.

An agent that is out of the game, see `active_agents`, is no sample. Where a value of what it would observe is needed,
for the steps before, it is that of another agent, see `stand_ins`. A memory gets what its own agent observes, also
where that one has nothing to decide, because this may matter later.

Shapes: B samples, N environments, T steps, M agents, K ended episodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.multi_agent.model.agents import fold_agents, stand_ins
from ding_lite.policy.base import Policy
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.torch_utils.minibatch import next_obs, rank_sizes
from ding_lite.torch_utils.normalizer import OBS_KEYS, active_agents
from ding_lite.utils.registry import WRAPPER_REGISTRY, ConfigError
from ding_lite.utils.tree import GLOBAL, MASK, STATE, tree_map

MODELS = {"vac": "mavac", "discrete_qac": "discrete_maqac"}  # instead of built-in models whose critic sees one agent


class AgentRows:
    """Folds the agents of a policy into rows, and unfolds rows.

    Args:
        agent_id: add the agent's number to its observations, see `fold_agents`.
        columns: keys of the columns that each agent has of its own, `[B, M, ...]`. It gets all others as they are.
        remembers: whether the policy has a memory.
    """

    def __init__(self, agent_id: bool, columns: Collection[str], remembers: bool) -> None:
        self._agent_id, self._columns = agent_id, columns
        self._own = (STATE, GLOBAL) if remembers else ()  # what is observed by agents that are out of the game

    def fold(self, data: dict[str, Any], dim: int = 0) -> dict[str, Any]:
        """Return a batch `[B, ...]` as one of `[B M, ...]`, or with `dim` 1 a block `[T, N, ...]` as `[T, N M, ...]`.

        The dimension of `last_obs` and `final_obs`, which have no steps, is 0 in both cases. A batch has no rows of
        agents that are out of the game. A block has the column `active`, which says whose rows count. For a policy with
        a memory it has `stand_in` and `next_stand_in`, the rows with the values of each row and of what follows it.
        """
        num, rows = data["obs"][STATE].shape[dim + 1], {}
        active = active_agents(data["obs"])
        for key, column in data.items():
            if key in OBS_KEYS:
                rows[key] = self.fold_obs(column, dim if key == "obs" else 0)
            elif key in self._columns:
                rows[key] = tree_map(lambda leaf: leaf.flatten(dim, dim + 1), column)
                if active is not None and key != "prev_state":
                    rows[key] = replace_rows(rows[key], active, dim)
            elif key == "final_index":  # each agent is an environment of its own
                rows[key] = (column[:, None] * num + torch.arange(num, device=column.device)).flatten()
            elif column.ndim > dim:
                rows[key] = column.repeat_interleave(num, dim)
        if active is None:
            return rows
        own = active.flatten(dim)
        if not dim:
            return tree_map(lambda leaf: leaf[own], rows)
        if not self._own:
            return rows | {"active": own}
        ends = {key: active_agents(data[key]) for key in ("last_obs", "final_obs") if key in data}
        following = next_obs(data | {"obs": active} | ends)
        return rows | {"active": own, "stand_in": row_index(active, 1), "next_stand_in": row_index(following, 1)}

    def fold_obs(self, obs: dict[str, Tensor], dim: int, own: Collection[str] = ()) -> dict[str, Tensor]:
        """Return observations as rows, with those of other agents in place of what agents out of the game observe.

        The parts `own` are not replaced, nor what a memory gets.
        """
        rows, active = fold_agents(obs, dim, self._agent_id), active_agents(obs)
        if active is None:
            return rows
        return replace_rows(rows, active, dim) | {key: rows[key] for key in (*own, *self._own) if key in rows}

    def sample_means(self, x: Tensor, obs: dict[str, Tensor]) -> Tensor:
        """Return the means over agents `[B]` of numbers of the rows of a batch that had these observations."""
        active_BM = active_agents(obs)
        if active_BM is None:
            return x.view(obs[STATE].shape[:2]).mean(1)
        return x.new_zeros(active_BM.shape).masked_scatter(active_BM, x).sum(1) / active_BM.sum(1)


@WRAPPER_REGISTRY.register("multi_agent")
class AgentPolicy(Policy):
    """A policy of one agent for several, as the first base class of a class whose second one is the policy's."""

    multi_agent = True

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        if cfg.policy.other.get("eps", {}).get("spread"):
            raise ConfigError(
                "policy.other.eps.spread gives each environment its epsilon, but with policy.multi_agent=True each "
                "agent explores for itself: leave one out."
            )

    def __init__(self, cfg: EasyDict, *args: Any, **kwargs: Any) -> None:
        """Build the policy as `Policy` does."""
        super().__init__(cfg, *args, **kwargs)
        own = ("action", *self.stored_outputs)  # columns that each agent has of its own
        self._agents = AgentRows(cfg.model.get("agent_id", True), own, self.remembers)

    def default_model(self) -> tuple[str, list[str]]:  # type: ignore[override]  # the policy's may be a method, too
        """Return the name of the policy's model in the model registry, and the modules whose import registers it."""
        name, modules = super().default_model()
        return MODELS.get(name, name), modules

    def learn(self, batch: Batch) -> Figures:
        """Take one optimizer step on a batch; the priority of a sample is the mean over its agents."""
        output = super().learn(batch)
        if "priority" in output:
            output["priority"] = self._agents.sample_means(output["priority"], batch["obs"])
        return output

    def _prepare(self, batch: Batch) -> Batch:
        return self._agents.fold(super()._prepare(batch))

    def _forward_learn(self, batch: Batch) -> Figures:
        if self.learns_from == "replay":  # the numbers of agents in the game differ between ranks
            sizes = rank_sizes(number := len(batch["action"]))
            self.weigh(number / (sum(sizes) / len(sizes)))
        return super()._forward_learn(batch)

    def _batches(self, samples: Batch) -> Iterator[Batch]:
        return super()._batches(self._agents.fold(self._to_device(samples), dim=1))

    def act(self, obs: Any, explore: bool = True, **kwargs: Any) -> Output:
        """Return the output of `Policy.act`, `[N, M, ...]`; between calls, the memory has this form too."""
        num, memory = obs[STATE].shape[1], self._memory[explore]
        memory.update(tree_map(lambda leaf: leaf.flatten(0, 1), memory))
        output = super().act(obs, explore, **kwargs)
        memory.update(unfold(memory, num))
        return unfold(output, num)

    def _ready_obs(self, obs: Any) -> Any:
        return self._agents.fold_obs(self._to_device(super()._ready_obs(obs)), 0, own=(MASK,))


def replace_rows(rows: Any, active: Tensor, dim: int) -> Any:
    """Return rows `[..., B M, ...]`, or nested dicts of these, with `stand_ins` for agents that are not `active`."""
    index = row_index(active, dim)
    return tree_map(lambda leaf: leaf.take_along_dim(index.view(*index.shape, *[1] * (leaf.ndim - dim - 1)), dim), rows)


def row_index(active: Tensor, dim: int) -> Tensor:
    """Return `stand_ins` as places among the rows: for `[..., B, M]`, with B at `dim`, `[..., B M]`."""
    index = stand_ins(active)
    return (index + torch.arange(index.shape[dim], device=index.device)[:, None] * index.shape[-1]).flatten(dim)


def unfold(rows: Any, num: int) -> Any:
    """Return tensors `[B M, ...]`, or nested dicts of these, as `[B, M, ...]` for `num` M."""
    return tree_map(lambda leaf: leaf.unflatten(0, (-1, num)), rows)

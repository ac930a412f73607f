"""MAPPO (Yu et al. 2022, arXiv:2103.01955) and IPPO (de Witt et al. 2020, arXiv:2011.09533): PPO for several agents.

All agents share a policy and a value. Each agent is a player of its own, with its own ratio and advantage, so the loss
is that of `policy/policy_gradient/ppo.py` over M times as many samples. In MAPPO the value is that of the state of the
whole task, V(s); in IPPO, `model.centralized_critic=False`, that of what the agent observes, V(o_m). The reward is the
same for all agents.

Deviations from the paper: the agents have no memory; `batch_size` counts samples of one agent.

Logged figures: those of PPO.

Shapes: T steps, N environments, M agents, K ended episodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor

from ding_lite.model.agents import fold_agents
from ding_lite.policy.policy_gradient.ppo import PPOPolicy
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map


@POLICY_REGISTRY.register("mappo")
class MAPPOPolicy(PPOPolicy):
    """MAPPO and IPPO. Override `_loss` to change the objective."""

    config: ClassVar[dict[str, Any]] = dict(type="mappo")
    action_spaces = (gymnasium.spaces.MultiDiscrete,)
    multi_agent = True
    model_type = "mavac"
    recurrent = False

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        return self._unfold(super()._forward_collect(self._fold(obs)))

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> dict[str, Any]:
        return self._unfold(super()._forward_eval(self._fold(obs)))

    def _batches(self, samples: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the batches of PPO for a block in which each agent is an environment of its own."""
        block, num = self._to_device(samples), samples["action"].shape[-1]
        each = {key: block[key].repeat_interleave(num, 1) for key in ("reward", "done", "traj_flag")}
        each |= {key: block[key].flatten(1, 2) for key in ("action", "logit", "value")}
        each |= {"obs": self._fold(block["obs"], 1), "last_obs": self._fold(block["last_obs"])}
        if "final_index" in block:
            agents = torch.arange(num, device=self._device)
            each |= {"final_index": (block["final_index"][:, None] * num + agents).flatten()}
            each["final_obs"] = self._fold(block["final_obs"])
        yield from super()._batches(each)

    def _fold(self, obs: Any, dim: int = 0) -> dict[str, Tensor]:
        return fold_agents(self._to_device(obs), dim, self._cfg.model.get("agent_id", True))

    def _unfold(self, output: dict[str, Any]) -> dict[str, Any]:
        """Return outputs `[N M, ...]` as `[N, M, ...]`."""
        return tree_map(lambda leaf: leaf.unflatten(0, (-1, self._cfg.model.agent_num)), output)

"""MAPPO (Yu et al. 2022, arXiv:2103.01955) and IPPO (de Witt et al. 2020, arXiv:2011.09533): PPO for several agents.

All agents share a policy and a value. Each agent is a player of its own, with its own ratio and advantage, so the loss
is that of `policy/policy_gradient/ppo.py` over M times as many samples. In MAPPO the value is that of the state of the
whole task, V(s); in IPPO, `model.centralized_critic=False`, that of what the agent observes, V(o_m). The reward is the
same for all agents.

With `model.lstm_type`, policy and value each remember what they have seen in the episode, as in the paper.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium

from ding_lite.multi_agent.rows import AgentPolicy
from ding_lite.policy.policy_gradient.ppo import PPOPolicy
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("mappo")
class MAPPOPolicy(AgentPolicy, PPOPolicy):
    """MAPPO and IPPO, another name of PPO with `multi_agent=True`. Override `_loss` to change the objective."""

    config: ClassVar[dict[str, Any]] = dict(
        type="mappo", multi_agent=Key(True, "each agent is a sample of its own, see docs/agents.md", choices=(True,))
    )
    action_spaces = (gymnasium.spaces.MultiDiscrete, gymnasium.spaces.Box)

"""Two agents that share a reward, and may not take every action: value decomposition (Sunehag et al. 2017).

What they see is a dict: `agent_obs` `[M, F]`, and `action_mask` `[M, A]`, which random play obeys because of its name.
The action is one number for each agent, `[M]`.

    Q(s, a) = sum_m Q_m(o_m, a_m),  y = r + gamma (1 - done) sum_m max over allowed a of Q'_m(o'_m, a)

Shapes: B samples, N environments, M agents, A actions of each, F features.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, MultiBinary, MultiDiscrete
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ding_lite.policy import DQNPolicy
from ding_lite.rl_utils import epsilon_greedy
from ding_lite.utils import ENV_REGISTRY, MODEL_REGISTRY, POLICY_REGISTRY


@ENV_REGISTRY.register("market")
class Market(gymnasium.Env):
    """Each agent takes one of A offers at every step; the reward is the mean value of what they took.

    An agent sees what its offers are worth, 0 to 1. About half of them are not for sale, and these look best: they are
    shown 1 above their value.
    """

    config = dict(
        num_agents=2,  # (int) M
        num_offers=4,  # (int) A
        length=5,  # (int) env steps until an episode is truncated
    )

    def __init__(self, cfg: Any) -> None:
        self._shape, self._length = (cfg.num_agents, cfg.num_offers), cfg.length
        self.observation_space = gymnasium.spaces.Dict(
            agent_obs=Box(0.0, 2.0, self._shape, np.float32), action_mask=MultiBinary(self._shape)
        )
        self.action_space = MultiDiscrete([cfg.num_offers] * cfg.num_agents)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        agents = np.arange(len(action))
        if not self._mask[agents, action].all():
            raise ValueError(f"the actions {action} are not all allowed by the mask {self._mask.tolist()}")
        reward = float(self._value[agents, action].mean())
        self._step += 1
        return self._observe(), reward, False, self._step == self._length, {}

    def _observe(self) -> dict[str, np.ndarray]:
        self._value = self.np_random.random(self._shape)
        self._mask = self.np_random.random(self._shape) < 0.5
        self._mask[:, 0] |= ~self._mask.any(-1)  # something is always for sale
        shown = self._value + ~self._mask
        return {"agent_obs": shown.astype(np.float32), "action_mask": self._mask.astype(np.int8)}


@MODEL_REGISTRY.register("agents_q")
class AgentsQ(nn.Module):
    """One network for all agents, which is told which agent it values for.

    Args:
        agent_num: M.
        obs_shape: F.
        action_num: A.
        hidden_size: of its layers.
    """

    def __init__(self, agent_num: int, obs_shape: int, action_num: int, hidden_size: int = 64) -> None:
        super().__init__()
        self.agent_num = agent_num
        layers = [nn.Linear(obs_shape + agent_num, hidden_size), nn.ReLU(), nn.Linear(hidden_size, action_num)]
        self.layers = nn.Sequential(*layers)

    def forward(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return `{'logit'}` `[B, M, A]`: Q of the allowed actions, minus infinity for the others."""
        obs_BMF = obs["agent_obs"]
        agent_BMM = (
            one_hot(torch.arange(self.agent_num, device=obs_BMF.device)).to(obs_BMF).expand(len(obs_BMF), -1, -1)
        )
        q_BMA = self.layers(torch.cat([obs_BMF, agent_BMM], -1))
        return {"logit": q_BMA.masked_fill(obs["action_mask"] == 0, -torch.inf)}


@POLICY_REGISTRY.register("masked_vdn")
class MaskedVDNPolicy(DQNPolicy):
    """VDN with double Q-learning: DQN's loop, replay, target and exploration, with Q summed over agents."""

    config = dict(
        type="masked_vdn",  # (str) name in the policy registry
    )
    action_spaces = (MultiDiscrete,)

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "agents_q", ["tests.seams.masked_agents"]

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        q_BMA = self._q_values(self._model, batch["obs"])
        q_B = q_BMA.gather(-1, batch["action"][..., None]).squeeze(-1).sum(-1)
        with torch.no_grad():
            target_q_BMA = self._q_values(self._target_model, batch["next_obs"])
            chooser_BMA = self._q_values(self._model, batch["next_obs"]) if self._cfg.double else target_q_BMA
            next_q_B = target_q_BMA.gather(-1, chooser_BMA.argmax(-1, keepdim=True)).squeeze(-1).sum(-1)
            target_B = batch["reward"] + batch["value_gamma"] * next_q_B.masked_fill(batch["done"], 0.0)
        error_B = target_B - q_B
        weight_B = batch["weight"] if self._cfg.priority_IS_weight else torch.ones_like(error_B)
        return (weight_B * error_B.square()).mean(), {"priority": error_B.detach().abs(), "q_value": q_B.detach()}

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, eps: float = 0.0, **kwargs: Any) -> dict[str, Tensor]:
        q_NMA = self._q_values(self._model, obs)
        return {"action": epsilon_greedy(q_NMA, eps, q_NMA > -torch.inf)}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> dict[str, Tensor]:
        return {"action": self._q_values(self._model, obs).argmax(-1)}

    def _q_values(self, network: nn.Module, obs: Any) -> Tensor:
        with self._autocast():
            return network(self._to_device(obs))["logit"].to(self._dtype)


main_config = dict(
    exp_name="masked_agents",
    env=dict(num_agents=2, num_offers=4, collector_env_num=4, evaluator_env_num=4, n_evaluator_episode=16),
    policy=dict(
        multi_gpu=True,
        num_threads=1,
        priority=True,
        priority_IS_weight=True,
        discount_factor=0.9,
        random_collect_size=40,
        model=dict(agent_num=2, obs_shape=4, action_num=4),
        learn=dict(update_per_collect=4, batch_size=32, learning_rate=0.003, target_theta=0.05),
        collect=dict(n_sample=8),
        other=dict(eps=dict(start=1.0, end=0.1, decay=500), replay_buffer=dict(replay_buffer_size=4000)),
    ),
)
create_config = dict(
    env=dict(type="market", import_names=["tests.seams.masked_agents"]),
    env_manager=dict(type="base"),
    policy=dict(type="masked_vdn", import_names=["tests.seams.masked_agents"]),
)

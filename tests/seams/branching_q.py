"""Several discrete actions at once: Q-learning with a branch for each (Tavakoli et al. 2018, arXiv:1711.08946).

Branch d has its own number of actions. All branches share an encoder, and one target, the mean of what they expect:

    y = r + gamma (1 - done) mean_d Q'_d(s', argmax_a Q_d(s', a))
    L = mean over samples and branches of (y - Q_d(s, a_d))^2

Shapes: B samples, N environments, D branches, A actions of one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, MultiDiscrete
from torch import Tensor, nn

from ding_lite.policy import DQNPolicy
from ding_lite.rl_utils import epsilon_greedy
from ding_lite.utils import ENV_REGISTRY, MODEL_REGISTRY, POLICY_REGISTRY


@ENV_REGISTRY.register("locks")
class Locks(gymnasium.Env):
    """Each wheel of a lock shows which number it wants; the reward is the share of wheels that are turned to it."""

    config = dict(
        wheels=[2, 3, 5],  # (list) how many numbers each wheel has
        length=5,  # (int) env steps of an episode
    )

    def __init__(self, cfg: Any) -> None:
        self._sizes, self._length = np.array(cfg.wheels), cfg.length
        self.observation_space = Box(0.0, 1.0, (int(self._sizes.sum()),), np.float32)
        self.action_space = MultiDiscrete(self._sizes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float((action == self._wanted).mean())
        self._step += 1
        return self._observe(), reward, self._step == self._length, False, {}

    def _observe(self) -> np.ndarray:
        self._wanted = self.np_random.integers(self._sizes)
        one_hot = [
            np.eye(size, dtype=np.float32)[wanted] for size, wanted in zip(self._sizes, self._wanted, strict=True)
        ]
        return np.concatenate(one_hot)


@MODEL_REGISTRY.register("branching_q")
class BranchingQ(nn.Module):
    """An encoder, and a head of Q-values for each dimension of the action.

    Args:
        obs_shape: length of the observation.
        action_shape: how many actions each branch has.
        hidden_size: of the encoder.
    """

    def __init__(self, obs_shape: int, action_shape: Sequence[int], hidden_size: int = 64) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(obs_shape, hidden_size), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(hidden_size, size) for size in action_shape)

    def forward(self, obs: Tensor) -> list[Tensor]:
        """Return Q-values `[B, A]` of each branch."""
        x = self.encoder(obs)
        return [head(x) for head in self.heads]


@POLICY_REGISTRY.register("branching_dqn")
class BranchingDQNPolicy(DQNPolicy):
    """DQN's loop, replay, target and exploration, with a Q-function for each dimension of the action."""

    config = dict(
        type="branching_dqn",  # (str) name in the policy registry
    )
    action_spaces = (MultiDiscrete,)

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "branching_q", ["tests.seams.branching_q"]

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        q_DB = choose(self._q_values(self._model, batch["obs"]), batch["action"].unbind(1))
        with torch.no_grad():
            target_q = self._q_values(self._target_model, batch["next_obs"])
            chooser_q = self._q_values(self._model, batch["next_obs"]) if self._cfg.double else target_q
            next_q_B = choose(target_q, [q_BA.argmax(-1) for q_BA in chooser_q]).mean(0)
            target_B = batch["reward"] + batch["value_gamma"] * next_q_B.masked_fill(batch["done"], 0.0)
        error_DB = target_B - q_DB
        weight_B = batch["weight"] if self._cfg.priority_IS_weight else torch.ones_like(target_B)
        priority_B = error_DB.detach().abs().mean(0)
        return (weight_B * error_DB.square()).mean(), {"priority": priority_B, "q_value": q_DB.detach()}

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, eps: float = 0.0, **kwargs: Any) -> dict[str, Tensor]:
        branches = self._q_values(self._model, obs)
        return {"action": torch.stack([epsilon_greedy(q_NA, eps) for q_NA in branches], -1)}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> dict[str, Tensor]:
        return {"action": torch.stack([q_NA.argmax(-1) for q_NA in self._q_values(self._model, obs)], -1)}

    def _q_values(self, network: nn.Module, obs: Any) -> list[Tensor]:
        with self._autocast():
            return [q_BA.to(self._dtype) for q_BA in network(self._to_device(obs))]


def choose(branches: list[Tensor], actions: Sequence[Tensor]) -> Tensor:
    """Return the values `[D, B]` of one action `[B]` in each branch of `[B, A]`."""
    pairs = zip(branches, actions, strict=True)
    return torch.stack([q_BA.gather(1, action_B[:, None]).squeeze(1) for q_BA, action_B in pairs])


main_config = dict(
    exp_name="branching_q",
    env=dict(collector_env_num=4, evaluator_env_num=4, n_evaluator_episode=16),
    policy=dict(
        multi_gpu=True,
        num_threads=1,
        priority=True,
        discount_factor=0.9,
        nstep=2,
        random_collect_size=40,
        learn=dict(update_per_collect=4, batch_size=32, learning_rate=0.003, target_theta=0.05),
        collect=dict(n_sample=8),
        other=dict(eps=dict(start=1.0, end=0.1, decay=500), replay_buffer=dict(replay_buffer_size=4000)),
    ),
)
create_config = dict(
    env=dict(type="locks", import_names=["tests.seams.branching_q"]),
    env_manager=dict(type="base"),
    policy=dict(type="branching_dqn", import_names=["tests.seams.branching_q"]),
)

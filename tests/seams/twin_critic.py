"""TD3, twin critics for continuous actions (Fujimoto et al. 2018, arXiv:1802.09477), with n steps and priorities.

The smaller of two target critics is believed, at a target action that noise has smoothed:

    a' = clip(pi'(s') + clip(sigma eps, -c, c), -1, 1)
    y = sum_{k<n} gamma^k r_k + gamma^n (1 - done) min_c Q'_c(s', a')
    L_critic = sum_c mean w (y - Q_c(s, a))^2,  L_actor = -mean Q_1(s, pi(s)),  priority = mean_c |y - Q_c(s, a)|

The actor and both targets move once in `actor_update_freq` iterations. It explores by noise on the actor's action.

Shapes: B samples, N environments, D dimensions of an action, C critics.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from ding_lite.policy import QACPolicy
from ding_lite.rl_utils import sum_of_means
from ding_lite.utils import ENV_REGISTRY, POLICY_REGISTRY


@POLICY_REGISTRY.register("twin_critic")
class TwinCriticPolicy(QACPolicy):
    """TD3; see the module."""

    config = dict(
        type="twin_critic",  # (str) name in the policy registry
        model=dict(
            action_space="regression",  # (str) the actor says an action
        ),
        learn=dict(
            learning_rate_actor=0.001,  # (float) learning rate of the actor's Adam
            learning_rate_critic=0.001,  # (float) learning rate of the critics' Adam
            actor_update_freq=2,  # (int) learner iterations between two steps of actor and targets
            target_noise=0.2,  # (float) standard deviation of the noise on the target action
            target_noise_bound=0.5,  # (float) its greatest size
        ),
    )
    action_space = "regression"

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        self._add_optimizer("critic", self._model.critic, learn.learning_rate_critic)
        self._add_optimizer("actor", self._model.actor, learn.learning_rate_actor)
        self._target_critic, self._target_actor = self._add_target("critic"), self._add_target("actor")
        self._iterations = 0

    def _draw_noise(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        return {"target": torch.randn_like(batch["action"])}

    def _critic_loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        learn = self._cfg.learn
        with torch.no_grad():
            noise_BD = (learn.target_noise * batch["noise"]["target"]).clamp(
                -learn.target_noise_bound, learn.target_noise_bound
            )
            action_BD = (self._run(self._target_actor, batch["next_obs"]) + noise_BD).clamp(-1.0, 1.0)
            next_value_B = self._run(self._target_critic, batch["next_obs"], action=action_BD).amin(0)
        q_CB = self._run(self._model.critic, batch["obs"], action=batch["action"])
        target_B = batch["reward"] + batch["value_gamma"] * next_value_B.masked_fill(batch["done"], 0.0)
        error_CB = target_B - q_CB
        loss = sum_of_means(error_CB.square(), batch.get("weight"))
        return loss, {"priority": error_CB.detach().abs().mean(0), "q_value": q_CB.detach()}

    def _actor_loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        action_BD = self._run(self._model.actor, batch["obs"])
        q_CB = self._run_frozen(self._model.critic, batch["obs"], action=action_BD)
        return -q_CB[0].mean(), {}

    def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        batch = self._prepare(batch)
        output = self._optimizers["critic"].step(self._critic_loss, batch)
        self._iterations += 1
        if self._iterations % self._cfg.learn.actor_update_freq == 0:
            output |= self._optimizers["actor"].step(self._actor_loss, batch)
            self._update_targets()
        return output

    def _state_dict_learn(self) -> dict[str, Any]:
        return super()._state_dict_learn() | {"iterations": self._iterations}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        self._iterations = state["iterations"] if "optimizer" in state else 0

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "q_value"]


@ENV_REGISTRY.register("approach")
class Approach(gymnasium.Env):
    """Move a point of the plane from a circle of radius 1 to its centre; the reward is minus the distance to that."""

    config = dict(
        length=10,  # (int) env steps until an episode is truncated
        speed=0.3,  # (float) greatest change of a coordinate in a step
    )

    def __init__(self, cfg: Any) -> None:
        self._length = cfg.length
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = Box(-cfg.speed, cfg.speed, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        angle = self.np_random.uniform(0.0, 2 * np.pi)
        self._place, self._step = np.array([np.cos(angle), np.sin(angle)], np.float32), 0
        return self._place, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._place = self._place + action
        self._step += 1
        return self._place, -float(np.linalg.norm(self._place)), False, self._step == self._length, {}


main_config = dict(
    exp_name="twin_critic",
    env=dict(collector_env_num=4, evaluator_env_num=4, n_evaluator_episode=16),
    policy=dict(
        multi_gpu=True,
        num_threads=1,
        priority=True,
        priority_IS_weight=True,
        nstep=3,
        discount_factor=0.9,
        random_collect_size=200,
        model=dict(actor_head_hidden_size=64, critic_head_hidden_size=64),
        learn=dict(update_per_collect=4, batch_size=64, target_theta=0.05),
        collect=dict(n_sample=8, noise_sigma=0.2),
        other=dict(replay_buffer=dict(replay_buffer_size=4000)),
    ),
)
create_config = dict(
    env=dict(type="approach", import_names=["tests.seams.twin_critic"]),
    env_manager=dict(type="base"),
    policy=dict(type="twin_critic", import_names=["tests.seams.twin_critic"]),
)

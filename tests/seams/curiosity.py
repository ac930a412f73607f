"""A reward model with a network of its own: random network distillation (Burda et al. 2018, arXiv:1810.12894).

A predictor learns what a fixed random network says of the observations that were seen. Where it errs, few were seen:

    b(s') = |predictor(s') - target(s')|^2 / std of all b so far,  r' = r + bonus_weight b(s')

The paper predicts intrinsic returns beside extrinsic ones; here the bonus joins the reward of plain DQN.

Shapes: T steps, N environments, B samples, F features.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium.spaces import Discrete
from torch import Tensor, nn

from ding_lite.reward_model import RewardModel, next_obs
from ding_lite.torch_utils import RunningMeanStd
from ding_lite.utils import ENV_REGISTRY, REWARD_MODEL_REGISTRY
from ding_lite.utils.key import Key


@REWARD_MODEL_REGISTRY.register("curiosity")
class CuriosityRewardModel(RewardModel):
    """Adds a bonus for observations that are new; see the module."""

    config = dict(
        type="curiosity",
        bonus_weight=Key(0.1, "what a bonus of one standard deviation adds to the reward", low=0),
        hidden_size=Key(64, "of both networks", low=1),
        feature_size=Key(16, "F, numbers that the target says of an observation", low=1),
    )

    def _init_networks(self) -> None:
        self._target = self._create_network().requires_grad_(False)
        self._predictor = self._create_network()
        self._bonus_stat = RunningMeanStd().to(self._device)  # of all ranks' bonuses
        self._optimizer = self._add_optimizer("predictor", self._predictor)

    def _create_network(self) -> nn.Module:
        (size,), hidden = self._observation_space.shape or (), self._cfg.hidden_size
        layers = [nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, self._cfg.feature_size)]
        return nn.Sequential(*layers).to(self._device)

    def _error(self, obs: Tensor) -> Tensor:
        """Return the squared distance `[...]` of prediction and target for observations `[..., D]`."""
        return (self._predictor(obs) - self._target(obs)).square().sum(-1)

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        return self._error(batch["obs"]).mean(), {}

    def train(self, block: dict[str, Any]) -> dict[str, Tensor]:
        obs_BD = self._to_device(next_obs(block)).flatten(0, 1)
        with torch.no_grad():
            self._bonus_stat.update(self._error(obs_BD))
        figures = self._optimizer.step(self._loss, {"obs": obs_BD})
        return {"loss": figures["predictor_loss"], "bonus_std": self._bonus_stat.std}

    def relabel(self, block: dict[str, Any]) -> dict[str, Any]:
        bonus_TN = self._error(self._to_device(next_obs(block))) / self._bonus_stat.std
        return {**block, "reward": block["reward"] + self._cfg.bonus_weight * bonus_TN.to(block["reward"])}


@ENV_REGISTRY.register("corridor")
class Corridor(gymnasium.Env):
    """Walk a corridor from its left end to its right end; only there is a reward, of 1.

    Which of the two actions leads right differs from place to place.
    """

    config = dict(
        places=16,  # (int) of the corridor
        length=30,  # (int) env steps until an episode is truncated
    )

    def __init__(self, cfg: Any) -> None:
        self._places, self._length = cfg.places, cfg.length
        self.observation_space, self.action_space = Discrete(cfg.places), Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._place, self._step = 0, 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        right = action == self._place * 7 % 5 % 2
        self._place = max(0, self._place + (1 if right else -1))
        self._step += 1
        found = self._place == self._places - 1
        return self._place, float(found), found, self._step == self._length, {}


main_config = dict(
    exp_name="curiosity",
    env=dict(collector_env_num=4, evaluator_env_num=2, n_evaluator_episode=2),
    policy=dict(
        multi_gpu=True,
        num_threads=1,
        discount_factor=0.95,
        nstep=3,
        model=dict(encoder_hidden_size_list=[64, 64]),
        learn=dict(update_per_collect=4, batch_size=32, learning_rate=0.002, target_theta=0.05),
        collect=dict(n_sample=8),
        other=dict(eps=dict(start=1.0, end=0.05, decay=500), replay_buffer=dict(replay_buffer_size=8000)),
    ),
    reward_model=dict(bonus_weight=0.2, learning_rate=0.001),
)
create_config = dict(
    env=dict(type="corridor", import_names=["tests.seams.curiosity"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
    reward_model=dict(type="curiosity", import_names=["tests.seams.curiosity"]),
)

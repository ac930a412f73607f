"""A point on a line that falls off at its ends, and world models of it."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor

from ding_lite.entry import Callback, serial_pipeline_dyna
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY

STEP, EDGE, LENGTH = 0.2, 1.0, 12  # distance that an action of 1 moves; where the line ends; env steps of an episode


@ENV_REGISTRY.register("line_with_edges")
class Line(gymnasium.Env[Any, Any]):
    """The action moves a point, the reward is -x^2 of where it was; beyond the edges the episode terminates.

    A torque of 2 is the action 1 of a policy. The second number of an observation is always 3.
    """

    config: ClassVar = dict(discrete=Key(False, "three actions: left, stay, right"), known=Key(True, "termination_fn"))

    def __init__(self, cfg_env: Any) -> None:
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self._discrete = cfg_env.discrete
        self.action_space = Discrete(3) if self._discrete else Box(-2.0, 2.0, (1,), np.float32)
        if cfg_env.known:
            self.termination_fn = beyond_the_edges

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._x, self._t = float(self.np_random.uniform(-0.5, 0.5)), 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward, self._t = -(self._x**2), self._t + 1
        self._x += STEP * (int(action) - 1 if self._discrete else float(action[0]) / 2)
        return self._observe(), reward, abs(self._x) > EDGE, self._t == LENGTH, {}

    def _observe(self) -> np.ndarray:
        return np.array([self._x, 3.0], np.float32)


class Image(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows black images."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = Box(0, 255, (1, 36, 36), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.zeros((1, 36, 36), np.uint8)


def beyond_the_edges(next_obs: Tensor) -> Tensor:
    return next_obs[:, 0].abs() > EDGE


def never(obs: Tensor, action: Tensor) -> Tensor:
    return torch.zeros_like(obs[:, 0] + action[:, 0], dtype=torch.bool)


MAIN: dict[str, Any] = dict(
    exp_name="run",
    env=dict(collector_env_num=4, evaluator_env_num=1, n_evaluator_episode=1),
    policy=dict(
        multi_gpu=True,
        num_threads=1,
        random_collect_size=48,
        learn=dict(batch_size=20, update_per_collect=2),
        collect=dict(n_sample=8),
        eval=dict(evaluator=dict(eval_freq=8)),
    ),
    world_model=dict(
        train_freq=24,
        rollout_length_scheduler=dict(type="constant", rollout_length=2),
        model=dict(ensemble_size=3, elite_size=2, hidden_size=16, batch_size=16, max_epochs_since_update=1),
        other=dict(rollout_batch_size=31, rollout_retain=2, real_ratio=0.25),
    ),
)
SMALL = dict(actor_head_hidden_size=8, critic_head_hidden_size=8)


def pair(kind: str = "sac", **env: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a config of a policy on the line, with a world model."""
    main = copy.deepcopy(MAIN)
    main["env"] |= env
    main["policy"]["model"] = dict(SMALL) if kind != "dqn" else dict(encoder_hidden_size_list=[8, 8])
    create = dict(
        env=dict(type="line_with_edges", import_names=["tests.world_model.helpers"]),
        policy=dict(type=kind),
        world_model=dict(type="mbpo"),
    )
    return main, create


def trained(*words: str, kind: str = "sac", max_env_step: int = 56, **env: Any) -> Any:
    """Return the world model of a short run on the line, with its policy and its replay."""
    models: list[Any] = []

    class Keep(Callback):
        def on_start(self, run: Any) -> None:
            models.append(run.learning_parts["world_model"])

    serial_pipeline_dyna(pair(kind, **env), seed=0, max_env_step=max_env_step, overrides=words, callbacks=[Keep()])
    return models[0]

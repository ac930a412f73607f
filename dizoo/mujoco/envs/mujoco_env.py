"""MuJoCo's robots under DI-engine's name; they need the extra `mujoco`."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, load_extra
from dizoo.discrete_actions import DiscreteActions


@ENV_REGISTRY.register("mujoco")
class MujocoEnv(gymnasium.Wrapper):
    """gymnasium's MuJoCo environments, with observations in float32."""

    config: ClassVar = dict(
        env_id=Key("Hopper-v5", "gymnasium id, such as 'HalfCheetah-v5'"),
        action_bins_per_branch=Key(
            None, "values to choose from in each dimension of an action; None: actions are continuous", type=int, low=2
        ),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        load_extra("mujoco", "mujoco", "This environment")
        env = make_gymnasium(cfg_env)
        if cfg_env.action_bins_per_branch is not None:
            env = DiscreteActions(env, cfg_env.action_bins_per_branch)
        space = gymnasium.spaces.Box(-np.inf, np.inf, env.observation_space.shape, np.float32)
        super().__init__(gymnasium.wrappers.TransformObservation(env, lambda obs: obs.astype(np.float32), space))

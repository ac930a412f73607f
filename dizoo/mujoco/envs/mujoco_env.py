"""MuJoCo's robots under DI-engine's name; they need the extra `mujoco`."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, load_extra
from dizoo.discrete_actions import DiscreteActions

# Numbers of an observation, and the bounds between which they are in a healthy state. The cheetah has none.
HEALTHY = {
    "Hopper": ((slice(0, 1), 0.7, np.inf), (slice(1, 2), -0.2, 0.2), (slice(1, None), -100.0, 100.0)),
    "Walker2d": ((slice(0, 1), 0.8, 2.0), (slice(1, 2), -1.0, 1.0)),
    "Ant": ((slice(0, 1), 0.2, 1.0),),
    "HalfCheetah": (),
}


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


@ENV_REGISTRY.register("mbmujoco")
class MBMujocoEnv(MujocoEnv):
    """`MujocoEnv` that also says which observations are terminal, for world models; of the robots in `HEALTHY`.

    The bounds are those of gymnasium's environments, version 4 or 5, with their default options.
    """

    def __init__(self, cfg_env: EasyDict) -> None:
        super().__init__(cfg_env)
        name = cfg_env.env_id.partition("-")[0]
        if name not in HEALTHY:
            known = ", ".join(HEALTHY)
            raise ConfigError(f"env.type 'mbmujoco' knows where episodes of {known} end, got env_id {cfg_env.env_id}.")
        self._bounds = HEALTHY[name]

    def termination_fn(self, next_obs: Any) -> Any:
        """Return which observations `[B, O]`, a tensor, are terminal, bool `[B]`."""
        healthy_B = next_obs.isfinite().all(-1)
        for columns, low, high in self._bounds:
            part = next_obs[:, columns]
            healthy_B &= ((part > low) & (part < high)).all(-1)
        return ~healthy_B & bool(self._bounds)

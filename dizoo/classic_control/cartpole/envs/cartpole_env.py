"""CartPole under DI-engine's name; `type='gymnasium', env_id='CartPole-v1'` is the same environment with no code."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
from easydict import EasyDict
from gymnasium.vector import VectorEnv

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY


@ENV_REGISTRY.register("cartpole")
class CartPoleEnv(gymnasium.Wrapper):
    """gymnasium's CartPole; episodes are truncated after 500 steps, those of 'CartPole-v0' after 200."""

    config: ClassVar = dict(
        env_id=Key("CartPole-v1", "gymnasium id"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        super().__init__(make_gymnasium(cfg_env))

    @classmethod
    def make_batched(cls, cfg_env: EasyDict, num_envs: int, device: str) -> VectorEnv:
        """Return `num_envs` environments as one torch program."""
        from dizoo.classic_control.cartpole.envs.cartpole_torch import CartPoleTorch  # noqa: PLC0415  (it loads torch)

        return CartPoleTorch.from_config(cfg_env, num_envs, device)

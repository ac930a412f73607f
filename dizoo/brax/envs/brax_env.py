"""Brax's robots (Freeman et al. 2021, arXiv:2106.13281), for `env_manager.type='batched'`; extra `brax`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY
from dizoo.jax_env import JaxEnv


@ENV_REGISTRY.register("brax")
class BraxEnv(JaxEnv):
    """Brax's environments; `env_id` is Brax's name, and `env.kwargs` are arguments of `brax.envs.get_environment`."""

    library, extra = "Brax", "brax"
    config: ClassVar = dict(
        env_id=Key("hopper", "Brax's name of the environment, such as 'ant', 'halfcheetah', 'hopper' or 'humanoid'"),
    )

    @classmethod
    def names(cls) -> Any:
        return cls.module("brax.envs")._envs

    @classmethod
    def load(cls, name: str, kwargs: Mapping[str, Any]) -> tuple[Any, int]:
        return cls.module("brax.envs").get_environment(name, **kwargs), 1000

"""MuJoCo Playground (Zakka et al. 2025, arXiv:2502.08844) for `env_manager.type='batched'`; extra `playground`.

JAX compiles each environment when a run starts, for half a minute on one CPU. If the variable
`JAX_COMPILATION_CACHE_DIR` names a folder, later runs find the results there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY
from ding_lite.utils.tree import dotted_items
from dizoo.jax_env import JaxEnv


@ENV_REGISTRY.register("playground")
class PlaygroundEnv(JaxEnv):
    """Playground's environments; `env.kwargs` are changes to Playground's config of one, such as `sim_dt`.

    `impl`, the implementation of the physics, is 'jax' on a CPU, where it is faster than Playground's default, 'warp'.
    The robots of `locomotion` and `manipulation` need files that Playground downloads when it first loads one.
    """

    library, extra = "MuJoCo Playground", "playground"
    config: ClassVar = dict(
        env_id=Key("CartpoleBalance", "Playground's name of the environment, such as 'HopperStand' or 'WalkerRun'"),
    )

    @classmethod
    def names(cls) -> Any:
        return cls.module("mujoco_playground").registry.ALL_ENVS

    @classmethod
    def load(cls, name: str, kwargs: Mapping[str, Any]) -> tuple[Any, int]:
        registry = cls.module("mujoco_playground").registry
        changes, usual = dict(dotted_items(kwargs)), registry.get_default_config(name)
        if "impl" in usual and cls.module("jax").default_backend() == "cpu":
            changes = {"impl": "jax"} | changes
        return registry.load(name, config_overrides=changes), usual.episode_length

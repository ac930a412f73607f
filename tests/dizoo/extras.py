"""Which environments need a package that may not be installed."""

from __future__ import annotations

import pytest
from easydict import EasyDict

EXTRAS = {
    "bipedalwalker": "Box2D",
    "carracing": "Box2D",
    "lunarlander": "Box2D",
    "mujoco": "mujoco",
    "brax": "brax",
    "playground": "mujoco_playground",
    "robotics": "gymnasium_robotics",
    "vmas": "vmas",
    "minigrid": "minigrid",
    "lbforaging": "lbforaging",
    "connect_four": "pettingzoo",
    "pettingzoo": "mpe2",
    "petting_zoo": "mpe2",
    "bsuite": "bsuite",
    "procgen": "procgen",
}  # env.type: the package


def needs(package: str | None) -> None:
    """Skip a test whose package is missing."""
    if package:
        pytest.importorskip(package)


def needs_robots(cfg_env: EasyDict) -> None:
    """Skip a test of a robot of MuJoCo Playground whose files have not been downloaded."""
    if cfg_env.type == "playground":
        playground = pytest.importorskip("mujoco_playground")
        if cfg_env.env_id in playground.locomotion.ALL_ENVS + playground.manipulation.ALL_ENVS:
            folder = pytest.importorskip("mujoco_playground._src.mjx_env").MENAGERIE_PATH
            if not folder.exists():
                pytest.skip(f"there is no {folder}")

"""Which environments need a package that may not be installed."""

from __future__ import annotations

import pytest

EXTRAS = {
    "bipedalwalker": "Box2D",
    "carracing": "Box2D",
    "lunarlander": "Box2D",
    "mujoco": "mujoco",
    "brax": "brax",
    "playground": "mujoco_playground",
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

"""DI-engine's main program for bit flipping, which its config files import."""

from __future__ import annotations

from typing import Any

from ding_lite.entry import serial_pipeline


def main(cfg: dict[str, Any], seed: int = 0, max_train_iter: int = 10**8, max_env_step: int = 10**8) -> Any:
    """Train DQN with `cfg`, a `main_config`, and return the policy."""
    env = dict(type="bitflip", import_names=["dizoo.bitflip.envs.bitflip_env"])
    create_config = dict(env=env, env_manager=dict(type="base"), policy=dict(type="dqn"))
    return serial_pipeline((cfg, create_config), seed, max_train_iter=max_train_iter, max_env_step=max_env_step)

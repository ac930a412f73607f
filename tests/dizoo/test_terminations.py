"""What dizoo's environments for world models say of terminal states, against the environments themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding_lite.config import compile_config
from ding_lite.envs.builders import build_single, find_builder
from ding_lite.utils import ConfigError
from tests.dizoo.extras import needs


def compiled(env_id: str) -> EasyDict:
    env = dict(type="mbmujoco", import_names=["dizoo.mujoco.envs.mujoco_env"])
    cfg: EasyDict = compile_config((dict(env=dict(env_id=env_id)), dict(env=env, policy=dict(type="sac")))).env
    return cfg


@pytest.mark.parametrize(
    ("env_id", "number"),
    [("Hopper-v5", 20), ("Hopper-v4", 20), ("Walker2d-v5", 20), ("Ant-v5", 1), ("HalfCheetah-v5", 0)],
)
def test_terminal_states_are_those_of_mujoco(env_id: str, number: int) -> None:
    """Random play of 3,000 steps ends at least `number` episodes; the function says the same of every step."""
    needs("mujoco")
    cfg = compiled(env_id)
    env = build_single(find_builder(cfg, None), cfg)
    env.action_space.seed(0)
    env.reset(seed=0)
    obs_T, done_T = [], []
    for _ in range(3000):
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        obs_T.append(obs)
        done_T.append(terminated)
        if terminated or truncated:
            env.reset()
    told_T = env.get_wrapper_attr("termination_fn")(torch.from_numpy(np.stack(obs_T)))
    assert told_T.tolist() == done_T
    assert (sum(done_T) >= number) if number else not any(done_T)


def test_another_robot_is_one_line() -> None:
    needs("mujoco")
    cfg = compiled("Swimmer-v5")
    with pytest.raises(ConfigError, match="knows where episodes of Hopper, Walker2d, Ant, HalfCheetah end, got env_id"):
        build_single(find_builder(cfg, None), cfg)

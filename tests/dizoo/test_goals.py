"""Environments with goals: flipping bits, and those of gymnasium-robotics."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding_lite.config import compile_config
from ding_lite.run.setup import prepare_run
from ding_lite.utils.registry import ConfigError
from ding_lite.worker import SampleCollector
from dizoo.bitflip.envs.bitflip_env import BitFlipEnv
from dizoo.robotics.envs.robotics_env import RoboticsEnv
from tests.dizoo.extras import needs
from tests.worker.games import Acting


def test_bits_flip_until_they_are_the_goal_or_the_steps_are_used_up() -> None:
    env = BitFlipEnv(EasyDict(n_bits=3))
    for seed in range(20):
        obs, _ = env.reset(seed=seed)
        differing = np.flatnonzero(obs["observation"] != obs["desired_goal"])
        assert len(differing) > 0
        assert env.observation_space.contains(obs)
        for left in range(len(differing) - 1, -1, -1):  # one bit less differs after each step
            obs, reward, terminated, truncated, info = env.step(differing[left])
            assert (reward, terminated, truncated) == (float(left == 0), left == 0, False)
            assert info == {"is_success": left == 0}


def test_an_episode_that_misses_the_goal_is_truncated_after_as_many_steps_as_bits() -> None:
    env = BitFlipEnv(EasyDict(n_bits=3))
    for seed in range(20):
        obs, _ = env.reset(seed=seed)
        bit = np.flatnonzero(obs["observation"] == obs["desired_goal"])[:1]
        if len(bit):  # back and forth, a bit of the goal is wrong after odd steps, and another one always is
            assert [env.step(bit[0])[1:4] for _ in range(3)] == [(0, False, False), (0, False, False), (0, False, True)]


def test_rewards_of_other_goals_are_those_of_steps_that_reach_them() -> None:
    env = BitFlipEnv(EasyDict(n_bits=2))
    achieved, desired = np.array([[0, 1], [1, 1], [0, 0]]), np.array([[0, 1], [0, 1], [0, 0]])
    assert env.compute_reward(achieved, desired, {}).tolist() == [1, 0, 1]
    assert env.compute_terminated(achieved, desired, {}).tolist() == [True, False, True]


def create(name: str) -> Any:
    env = dict(type="robotics", import_names=["dizoo.robotics.envs.robotics_env"])
    main = dict(env=dict(env_id=name, collector_env_num=1), policy=dict(other=dict(replay_buffer=dict(type="her"))))
    return main, dict(env=env, policy=dict(type="sac"))


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = compile_config(create("FetchReach-v4"))
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)
    with pytest.raises(ConfigError, match=r"needs the extra 'robotics' .*pip install 'ding_lite\[robotics\]'"):
        RoboticsEnv(cfg.env)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "reward"), [("FetchReach-v4", (-1.0, 0.0)), ("PointMaze_UMaze-v3", (0.0, 1.0))])
def test_goals_that_were_reached_earn_the_reward_of_the_real_environment(
    name: str, reward: tuple[float, float]
) -> None:
    needs("gymnasium_robotics")
    missed, reached = reward
    setup = prepare_run(create(name), seed=0)
    buffer, size = setup.create_replay_buffer(setup.create_policy()), setup.spec.action_space.shape
    with ExitStack() as stack:
        player = Acting(lambda obs, **_: {"action": torch.full((1, *(size or ())), 0.5)})
        buffer.push(SampleCollector(setup.create_collect_env(stack), player, 400, [0]).collect()[0])
    batch = buffer.sample(2000)
    distance = (batch["next_obs"]["achieved_goal"] - batch["next_obs"]["desired_goal"]).norm(dim=-1)
    radius = 0.05 if name.startswith("Fetch") else 0.45  # gymnasium-robotics' own
    near = distance < radius - 1e-5
    assert near.any()
    assert (batch["reward"][near] == reached).all()
    assert (batch["reward"][distance > radius + 1e-5] == missed).all()
    assert not batch["done"].any()

"""MuJoCo Playground's environments, where the extra is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.envs import check_env
from ding_lite.envs.batched import create_batched
from ding_lite.utils import ConfigError
from dizoo.jax_env import JaxVectorEnv
from dizoo.playground.envs.playground_env import PlaygroundEnv

pytest.importorskip("mujoco_playground")


def config(**env: Any) -> Any:
    create = dict(env=dict(type="playground"), env_manager=dict(type="batched"), policy=dict(type="ppo"))
    return compile_config((dict(env=env, policy={}), create))


def test_its_steps_are_those_of_playground() -> None:
    import jax  # noqa: PLC0415

    env = create_batched(PlaygroundEnv, config().env, 2)
    obs, _ = env.reset(seed=1)
    assert isinstance(env.unwrapped, JaxVectorEnv)
    state, one = env.unwrapped._carried[0], PlaygroundEnv.load("CartpoleBalance", {})[0]
    np.testing.assert_array_equal(obs, state.obs)
    for number in (0.5, -0.5):
        action = np.full((2, 1), number, np.float32)
        obs, reward, terminated, truncated, _ = env.step(torch.from_numpy(action))
        state = jax.jit(jax.vmap(one.step))(state, action)
        np.testing.assert_allclose(obs, state.obs, rtol=1e-5, atol=1e-6)  # XLA may fuse the two programs differently
        np.testing.assert_allclose(reward, state.reward, rtol=1e-5)
        assert not (terminated | truncated).any()


def test_the_usual_limit_and_a_changed_config_of_playground_hold() -> None:
    assert create_batched(PlaygroundEnv, config().env, 2).metadata["max_episode_steps"] == 1000
    env, limit = PlaygroundEnv.load("CartpoleBalance", {"sim_dt": 0.005, "vision_config": {"nworld": 4}})
    assert (env.n_substeps, env._config.vision_config.nworld, env._config.impl, limit) == (2, 4, "jax", 1000)


def test_episodes_follow_each_other_where_environments_share_memory() -> None:
    env = create_batched(PlaygroundEnv, config(kwargs=dict(impl="warp"), max_episode_steps=2).env, 3)
    first, _ = env.reset(seed=1)
    steps = [env.step(torch.ones(3, 1)) for _ in range(4)]
    assert [step[3].all().item() for step in steps] == [False, True, False, True]
    obs, _, _, _, info = steps[1]
    assert (info["final_obs"][:, 3] > 0.1).all()  # the cart has moved for two steps; it begins with a speed near 0
    assert (obs[:, 3].abs() < 0.1).all()
    assert not torch.equal(obs, first)


def test_what_is_not_possible_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"MuJoCo Playground knows no 'HoperStand'\. Did you mean 'HopperStand'"):
        check_env(config(env_id="HoperStand").env)
    with pytest.raises(ConfigError, match=r"Environment 'CartpoleBalance' cannot be built by make_batched: .*sim_dtt"):
        check_env(config(kwargs=dict(sim_dtt=0.1)).env)

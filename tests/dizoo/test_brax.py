"""Brax's robots, where the extra is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.envs import check_env
from ding_lite.envs.batched import create_batched
from ding_lite.utils import ConfigError
from dizoo.brax.envs.brax_env import BraxEnv

pytest.importorskip("brax")


def config(manager: str = "batched", **env: Any) -> Any:
    main = dict(env=dict(env_id="inverted_pendulum", max_episode_steps=5) | env, policy={})
    return compile_config((main, dict(env=dict(type="brax"), env_manager=dict(type=manager), policy=dict(type="ppo"))))


def play(seed: int) -> list[Any]:
    env = create_batched(BraxEnv, config().env, 3, training=True)
    found, actions = [env.reset(seed=seed)[0]], torch.Generator().manual_seed(0)
    found += [env.step(torch.rand(3, 1, generator=actions) * 0.1) for _ in range(11)]
    return found


def test_episodes_follow_from_the_seed_and_end_at_the_limit() -> None:
    one, same, other = play(1), play(1), play(2)
    assert torch.equal(one[-1][0], same[-1][0])
    assert not torch.equal(one[-1][0], other[-1][0])
    assert [step[3].all().item() for step in one[1:]] == [False, False, False, False, True] * 2 + [False]
    obs, _, _, _, info = one[5]
    assert not torch.equal(obs, info["final_obs"])
    assert np.isfinite(info["final_obs"].numpy()).all()
    assert not torch.equal(one[0], obs)  # the next episodes begin elsewhere


def test_what_is_not_possible_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Brax knows no 'hoper'\. Did you mean 'hopper'"):
        check_env(config(env_id="hoper").env)
    with pytest.raises(ConfigError, match=r"set env_manager\.type to 'batched'"):
        check_env(config("base").env)

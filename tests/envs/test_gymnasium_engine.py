"""gymnasium's vectorised CartPole obeys the contract of `vector_env`, and plays the episodes of the single one."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from ding_lite.envs import check_env, create_vector_env
from ding_lite.utils import ConfigError
from dizoo.classic_control.cartpole.envs.cartpole_env import CartPoleEnv  # registers itself
from tests.envs.test_vector_env import env_config


def make(manager: str, num_envs: int = 4, training: bool = True, env_type: str = "gymnasium", **overrides: Any) -> Any:
    cfg = env_config(env_type, manager={"type": manager}, **{"env_id": "CartPole-v1", **overrides})
    return create_vector_env(cfg, num_envs, 7, training)


@pytest.mark.parametrize("stack", [0, 3])
@pytest.mark.parametrize("limit", [None, 15])
def test_it_plays_the_episodes_of_the_single_environment(stack: int, limit: int | None) -> None:
    envs = [make(manager, frame_stack=stack, max_episode_steps=limit) for manager in ("base", "native")]
    assert envs[0].single_observation_space == envs[1].single_observation_space
    np.testing.assert_array_equal(*(env.reset()[0] for env in envs))
    rng = np.random.default_rng(0)
    fell = cut = 0
    for _ in range(150):
        action = rng.integers(0, 2, 4)
        (*single, single_info), (*vector, vector_info) = (env.step(action) for env in envs)
        for left, right in zip(single, vector, strict=True):
            np.testing.assert_array_equal(left, right)
            assert left.dtype == right.dtype
        for key in ("episode_return", "episode_length"):
            np.testing.assert_array_equal(single_info[key], vector_info[key])
        assert ("final_obs" in single_info) == ("final_obs" in vector_info)
        if "final_obs" in single_info:
            np.testing.assert_array_equal(single_info["final_obs"], vector_info["final_obs"])
        fell, cut = fell + vector[2].sum(), cut + vector[3].sum()
    assert fell > 5
    assert (cut > 5) == (limit is not None)


def test_some_environments_can_be_reset() -> None:
    for env in (make("native", training=False), make("base", training=False)):
        env.reset(seed=[1, 2, 3, 4])
        before = env.step(np.ones(4, np.int64))[0].copy()
        mask = np.array([False, True, False, True])
        obs, _ = env.reset(options={"reset_mask": mask})
        assert (obs[~mask] == before[~mask]).all()
        assert (np.abs(obs[mask]) <= 0.05).all()
        assert env.step(np.ones(4, np.int64))[4]["episode_length"].tolist() == [2, 1, 2, 1]
        seeded, _ = env.reset(seed=[1, 2, 3, 4])
        assert (seeded == env.reset(seed=[1, 2, 3, 4])[0]).all()


def test_options_reach_it_and_its_name_in_di_engine_does_too() -> None:
    env = make("native", env_type="cartpole", kwargs={"sutton_barto_reward": True})
    assert CartPoleEnv.plain_if == {}
    env.reset()
    rows = [env.step(np.ones(4, np.int64)) for _ in range(20)]
    assert all((reward == -terminated.astype(np.float32)).all() for _, reward, terminated, _, _ in rows)
    assert sum(terminated.sum() for _, _, terminated, _, _ in rows) >= 4
    spec = check_env(env_config(env_id="CartPole-v1", manager={"type": "native"}))
    assert (spec.observation_space, spec.action_space) == (env.single_observation_space, env.single_action_space)


class Waits(gymnasium.vector.VectorEnv):
    """A vectorised environment that resets in a step of its own."""

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def __init__(self, **kwargs: Any) -> None:
        self.num_envs = kwargs["num_envs"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"env_id": "Waits-v0"}, r"'Waits-v0': Waits spends steps of all environments on a reset: .*'base'"),
        ({"kwargs": {"gravty": 1}}, r"'CartPole-v1': .*\{'gravty': 1\}.*gravty"),
        ({"env_id": "Pendulum-v1"}, r"'native'.* no engine of their own"),
        ({"episodic_life": True}, r"env\.episodic_life.*lives"),
    ],
)
def test_mistakes_are_config_errors(overrides: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = gymnasium.envs.registration.EnvSpec("Waits-v0", vector_entry_point=Waits)
    monkeypatch.setitem(gymnasium.registry, "Waits-v0", spec)
    with pytest.raises(ConfigError, match=message):
        check_env(env_config(manager={"type": "native"}, **{"env_id": "CartPole-v1", **overrides}))

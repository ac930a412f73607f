"""VMAS's scenarios, where the extra is installed: what several environments return is what VMAS returns for each."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ding_lite
from ding_lite.config import compile_config
from ding_lite.envs import check_env
from ding_lite.envs.batched import create_batched
from ding_lite.utils import ConfigError
from ding_lite.utils.tree import tree_leaves
from dizoo.vmas.envs.vmas_env import VMASEnv, VMASVectorEnv
from tests.policy.helpers import parameter_hash

vmas = pytest.importorskip("vmas")

NUM = 6
SCENARIOS = [
    ("balance", True, {"n_agents": 4}),
    ("balance", False, {}),
    ("navigation", True, {"n_agents": 3, "shared_rew": False}),
    ("transport", False, {}),
]
EVERY = pytest.mark.parametrize(("name", "continuous", "kwargs"), SCENARIOS)


def make(name: str = "balance", continuous: bool = True, num: int = NUM, **kwargs: Any) -> VMASVectorEnv:
    return VMASVectorEnv(name, num, continuous_actions=continuous, **kwargs)


def draw(env: VMASVectorEnv, steps: int) -> list[Tensor]:
    env.action_space.seed(0)
    return [torch.as_tensor(env.action_space.sample()) for _ in range(steps)]


def play(env: VMASVectorEnv, actions: list[Tensor], every: int = 4) -> list[Tensor]:
    """Return what the steps return; after each `every` of them, half of the environments begin anew."""
    rows = []
    for step, action in enumerate(actions, start=1):
        obs, *rest, _ = env.step(action)
        rows += [*tree_leaves(obs), *rest]
        if step % every == 0:
            rows += tree_leaves(env.reset(options={"reset_mask": torch.arange(env.num_envs) % 2 == 0})[0])
    return rows


def config(policy: str = "mappo", manager: str = "batched", **env: Any) -> Any:
    return dict(env=env, policy={}), dict(
        env=dict(type="vmas"), env_manager=dict(type=manager), policy=dict(type=policy)
    )


@EVERY
def test_every_step_is_vmas_own_and_those_that_go_on_do_not_notice_a_restart(
    name: str, continuous: bool, kwargs: dict[str, Any]
) -> None:
    env = make(name, continuous, **kwargs)
    plain = vmas.make_env(name, NUM, continuous_actions=continuous, terminated_truncated=True, **kwargs)
    obs, _ = env.reset(seed=7)
    seen = torch.stack(plain.reset(seed=7), 1)
    assert torch.equal(obs["agent_state"], seen)
    same = torch.ones(NUM, dtype=torch.bool)
    for step, action in enumerate(draw(env, 60), start=1):
        own = action if continuous else action.unsqueeze(-1)
        before, reward, terminated, truncated, _ = env.step(action)
        seen, rewards, over, _, _ = plain.step(list(own.clone().unbind(1)))
        seen = torch.stack(seen, 1)
        assert torch.equal(before["agent_state"][same], seen[same])
        assert torch.equal(before["global_state"], before["agent_state"].flatten(1))
        assert torch.equal(reward[same], torch.stack(rewards).mean(0)[same])
        assert torch.equal(terminated[same], over[same])
        assert not truncated.any()
        if step % 20 == 0:  # one environment after the other begins anew
            mask = torch.arange(NUM) == step // 20
            obs, _ = env.reset(options={"reset_mask": mask})
            same &= ~mask
            assert torch.equal(obs["agent_state"][~mask], before["agent_state"][~mask])
            assert not torch.equal(obs["agent_state"][mask], before["agent_state"][mask])
    assert same.sum() == NUM - 3
    assert not torch.equal(before["agent_state"], seen)


@EVERY
def test_a_restarted_environment_is_one_of_a_full_restart(name: str, continuous: bool, kwargs: dict[str, Any]) -> None:
    """With the same random numbers, rows of the mask are those that VMAS begins with, in all tensors of the world."""
    env, fresh = make(name, continuous, **kwargs), make(name, continuous, **kwargs)
    env.reset(seed=1)
    for action in draw(env, 9):
        env.step(action)
    mask = torch.arange(NUM) < 2
    obs, _ = env.reset(seed=3, options={"reset_mask": mask})
    expected, _ = fresh.reset(seed=3)
    for key, leaf in expected.items():
        assert torch.equal(obs[key][mask], leaf[mask])
    for step, action in enumerate(draw(env, 20)):
        for found, other in zip(env.step(action)[:4], fresh.step(action)[:4], strict=True):
            for one, two in zip(tree_leaves(found), tree_leaves(other), strict=True):
                assert torch.equal(one[mask], two[mask]), step


def test_episodes_end_at_the_limit_and_their_last_observations_are_kept() -> None:
    cfg = compile_config(config(env_id="navigation", max_episode_steps=5))
    env = create_batched(VMASEnv, cfg.env, 3, training=True)
    env.reset(seed=0)
    actions = draw(make("navigation", num=3), 11)
    steps = [env.step(action) for action in actions]
    assert [step[3].all().item() for step in steps] == [False, False, False, False, True] * 2 + [False]
    obs, _, _, _, info = steps[4]
    assert (obs["agent_state"] != info["final_obs"]["agent_state"]).any(2).all()
    plain = make("navigation", num=3, max_episode_steps=0)
    plain.reset(seed=0)
    lasting = [plain.step(action) for action in actions]
    assert torch.equal(info["final_obs"]["agent_state"], lasting[4][0]["agent_state"])
    assert not any(step[3].any() for step in lasting)
    assert torch.equal(info["episode_return"], torch.stack([step[1].double() for step in lasting[:5]]).sum(0))


def test_an_episode_terminates_where_the_ball_falls() -> None:
    env = make("balance", False)
    env.reset(seed=0)
    aside = torch.full((NUM, 3), 6)  # the agents leave the line, which they carry, to the right
    steps = [env.step(aside) for _ in range(100)]
    assert torch.stack([step[2] for step in steps]).any(0).all()
    assert not any(step[3].any() for step in steps[:-1])
    assert (steps[-1][1][steps[-1][2]] < -9).all()  # -10 for a fall


@EVERY
def test_a_seed_and_the_actions_determine_the_results(name: str, continuous: bool, kwargs: dict[str, Any]) -> None:
    one, same, other = (make(name, continuous, **kwargs) for _ in range(3))
    actions = draw(one, 12)
    play(same, actions)  # what was before does not count
    rows = []
    for env, seed in ((one, 5), (same, 5), (other, 6)):
        first = env.reset(seed=seed)[0]["agent_state"]
        rows.append([first, *play(env, actions)])
    assert all(map(torch.equal, rows[0], rows[1]))
    assert not torch.equal(rows[0][0], rows[2][0])
    assert not torch.equal(make(name).reset()[0]["agent_state"], make(name).reset()[0]["agent_state"]), "no seed"


def test_simulators_have_random_numbers_of_their_own_and_leave_the_global_ones() -> None:
    def global_states() -> list[Any]:
        return [torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()]

    before, alone, beside, other = global_states(), make(), make(), make()
    actions = draw(alone, 8)
    alone.reset(seed=1), beside.reset(seed=1)
    expected, rows = play(alone, actions, every=1), []
    for action in actions:
        other.reset()
        rows += play(beside, [action], every=1)
    assert all(map(torch.equal, rows, expected))
    assert global_states() == before


@EVERY
def test_restored_environments_go_on_with_the_same_bits(name: str, continuous: bool, kwargs: dict[str, Any]) -> None:
    env, other = make(name, continuous, **kwargs), make(name, continuous, **kwargs)
    env.reset(seed=2), other.reset(seed=3)
    actions = draw(env, 24)
    play(env, actions[:10])
    state = env.state_dict()
    rows = play(env, actions[10:])
    other.load_state_dict(state)
    assert all(map(torch.equal, rows, play(other, actions[10:])))
    env.load_state_dict(state)
    assert all(map(torch.equal, rows, play(env, actions[10:])))
    with pytest.raises(ValueError, match=r"^state: expected 2 environments, got 6\."):
        make(name, continuous, num=2, **kwargs).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state: it is of another scenario"):
        make("sampling").load_state_dict(state)


def test_the_first_environments_image_is_drawn() -> None:
    env = make("navigation")
    env.reset(seed=0)
    try:
        (first,) = env.render()
    except Exception as error:  # of pyglet, which names no class for it
        pytest.skip(f"no OpenGL: {error}")
    env.reset(seed=1)
    (second,) = env.render()
    assert first.shape == second.shape == (700, 700, 3)
    assert first.dtype == np.uint8
    assert (first != second).any()


def test_the_teams_reward_is_the_mean_of_its_agents_or_their_sum() -> None:
    mean, total = (make("navigation", team_reward=way, shared_rew=False) for way in ("mean", "sum"))
    mean.reset(seed=0), total.reset(seed=0)
    for action in draw(mean, 5):
        torch.testing.assert_close(mean.step(action)[1] * 4, total.step(action)[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(env_id="balanse"), r"VMAS knows no 'balanse'\. Did you mean 'balance'"),
        (dict(env_id="football"), "'football' cannot be restarted"),
        (dict(env_id="simple_tag"), "the agents of 'simple_tag' observe"),
        (dict(kwargs={"agents": 2}), "'agents'"),
        (dict(manager="base"), r"set env_manager\.type to 'batched'"),
    ],
)
def test_what_is_not_possible_is_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        check_env(compile_config(config(**changes)).env)
    assert "\n" not in str(error.value)


def train(name: str, steps: int, policy: str, continuous: bool, *, resume: bool = False) -> Any:
    env: dict[str, Any] = dict(continuous_actions=continuous, max_episode_steps=15, collector_env_num=16)
    kind = "mappo" if policy == "ippo" else policy
    main, create = config(kind, **env, evaluator_env_num=4, n_evaluator_episode=4, stop_value=None)
    learning: dict[str, Any] = {"model": {"centralized_critic": False}} if policy == "ippo" else {}
    if kind == "mappo":
        learning |= dict(collect={"n_sample": 320}, learn={"epoch_per_collect": 1, "batch_size": 960})
    main |= {"exp_name": name, "policy": learning}
    overrides: dict[str, Any] = {"policy.learn.resume_training": resume}
    return ding_lite.train((main, create), 0, max_env_step=steps, **overrides)


@pytest.mark.parametrize(("policy", "continuous"), [("mappo", True), ("mappo", False), ("ippo", True), ("qmix", False)])
def test_policies_of_several_agents_learn_on_it(policy: str, continuous: bool) -> None:
    trained = train("vmas", 640, policy, continuous)
    assert trained.result["train_iter"] > 0
    assert -20 < trained.best_return < 20


def test_a_resumed_run_goes_on_with_the_episodes_that_it_left() -> None:
    whole = train("whole", 960, "mappo", True)
    train("part", 480, "mappo", True)
    part = train("part", 960, "mappo", True, resume=True)
    assert parameter_hash(part.policy.model) == parameter_hash(whole.policy.model)

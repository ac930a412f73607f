"""What an environment must have for goals in hindsight, said in one line where it is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import FlattenObservation, TransformReward

from ding_lite.entry import serial_pipeline
from ding_lite.goals.goal_env import GoalEnv
from ding_lite.utils.registry import ConfigError
from tests.goals.line import Line

BUFFER = "policy.other.replay_buffer.type='her'"


class NoReward(Line):
    compute_reward = property()  # as if it were missing: reading it raises AttributeError


class OneByOne(Line):
    """Its `compute_reward` takes single goals."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return -np.linalg.norm(achieved_goal - desired_goal)


class Asks(Line):
    """Its `compute_reward` reads `info`."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return super().compute_reward(achieved_goal, desired_goal, info) + info["bonus"]

    def step(self, action: Any) -> Any:
        self._place, self._step = self._place + action, self._step + 1
        return self._obs(), 0.0, False, self._step == 8, {}


class Effort(Line):
    """Its rewards also depend on actions."""

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, reward - 0.1, *rest


class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward: Any) -> Any:
        return 2 * reward


class DoubledGoals(Doubled):
    """Also doubles the rewards of other goals."""

    def compute_reward(self, *args: Any) -> Any:
        return 2 * self.env.get_wrapper_attr("compute_reward")(*args)


class Ambiguous(Line):
    """Its `compute_terminated` raises an error for several goals."""

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        return bool(np.abs(achieved_goal - desired_goal)[..., 0] < 0.1)


class Endless(Line):
    """Its `compute_terminated` says that no goal is an end, whatever it gets."""

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        return False


class Broken(Line):
    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        return bool(info["success"])

    def step(self, action: Any) -> Any:
        self._step += 1
        return self._obs(), float(self.compute_reward(self._place, self._goal, {})), False, self._step == 8, {}


class Pair(Line):
    """The two goals have different sizes."""

    def __init__(self, cfg_env: Any = None) -> None:
        super().__init__()
        parts = self.observation_space.spaces  # type: ignore[attr-defined]
        self.observation_space = Dict({**parts, "achieved_goal": Box(-1, 1, (2,), np.float32)})


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda: gymnasium.make("CartPole-v1"), "needs observations with 'achieved_goal' and 'desired_goal', vectors"),
        (lambda: FlattenObservation(Line()), "got Box("),
        (Pair, "got 'achieved_goal' [2], 'desired_goal' [1]"),
        (NoReward, "NoReward has no method compute_reward(achieved_goal, desired_goal, info)"),
        (OneByOne, "returned an array of shape [] for 16 goals: expected a reward for each; compute along the last"),
        (Asks, "Environment 'Asks' cannot compute_reward for many goals: "),
        (Broken, "Environment 'Broken' cannot "),
        (Effort, "Rewards for other goals must follow from compute_reward alone"),
        (
            lambda: TransformReward(Line(), lambda reward: reward),
            "the wrapper TransformReward changes the rewards that",
        ),
        (lambda: gymnasium.wrappers.TimeLimit(Doubled(Line()), 5), "the wrapper Doubled changes the rewards"),
    ],
)
def test_what_other_goals_cannot_be_asked_of_is_refused_in_one_line(create: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        GoalEnv(create(), np.float64)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_whether_goals_are_ends_is_found_out_with_single_goals_too() -> None:
    env, goal_BG = GoalEnv(Ambiguous(), np.float64), torch.tensor([[0.0], [1.0]])
    assert env.terminates
    assert env.terminated(goal_BG, torch.ones(2, 1)).tolist() == [False, True]
    assert not GoalEnv(Endless(), np.float64).terminates


def test_a_wrapper_with_compute_reward_changes_both_rewards() -> None:
    env = GoalEnv(DoubledGoals(Line()), np.float64)
    achieved_BG, desired_BG = torch.tensor([[0.0], [1.5]]), torch.tensor([[1.0], [1.45]])
    # twice minus the distances 1 and 0.05; only the second is within 0.1
    torch.testing.assert_close(env.rewards(achieved_BG, desired_BG), torch.tensor([-2.0, -0.1]))
    assert env.terminated(achieved_BG, desired_BG).tolist() == [False, True]


def pair(path: Path, kind: str = "sac", **env: Any) -> Any:
    env |= dict(collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1)
    policy = dict(other=dict(replay_buffer=dict(type="her")), random_collect_size=0)
    create = dict(env=dict(type="goal_line", import_names=["tests.goals.line"]), policy=dict(type=kind))
    return dict(exp_name=str(path / "run"), env=env, policy=policy), create


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("ppo_offpolicy", "", f"{BUFFER} does not support policies that estimate returns before steps are stored"),
        ("recurrent_sac", "", "does not go with policy.unroll_len: leave"),
        ("sac", "env.frame_stack=4", f"{BUFFER} does not support frame stacks"),
        ("sac", "env.clip_rewards=True", "does not go with env.clip_rewards: leave one of them out."),
        ("sac", "reward_model.type=rnd", "does not go with reward_model"),
        ("sac", "policy.priority=True", "policy.priority=True has no effect on the buffer 'her'"),
        ("sac", "env.wrappers=['tests.goals.test_goal_env:Doubled']", f"{BUFFER}: the wrapper Doubled changes"),
        ("sac", "policy.other.replay_buffer.her_strategy=random", "her_strategy"),
    ],
)
def test_what_contradicts_goals_in_hindsight_is_refused(kind: str, words: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        serial_pipeline(pair(tmp_path, kind), seed=0, max_env_step=400, overrides=words.split())
    assert message in str(caught.value)

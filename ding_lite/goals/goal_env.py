"""What an environment says of other goals than its own, in the convention of gymnasium-robotics.

Observations are a `Dict` with `achieved_goal` and `desired_goal`. The environment has two methods, of which the second
may be missing; both take a batch of goals, and `info`, which is empty here:

* `compute_reward(achieved_goal, desired_goal, info)`: the rewards `[B]` of steps that led to `achieved_goal`.
* `compute_terminated(achieved_goal, desired_goal, info)`: whether these steps end the episode, `[B]`. One that only
  takes a single goal, as that of gymnasium-robotics' mazes, is called for each of them.

Shapes: B steps, G numbers of a goal.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from gymnasium import Env, RewardWrapper, Wrapper
from gymnasium.spaces import Box, Dict
from torch import Tensor

from ding_lite.envs.checks import attempt, draw_action
from ding_lite.utils.registry import ConfigError

BUFFER = "policy.other.replay_buffer.type='her'"
TRIAL_STEPS = 16  # env steps whose rewards are compared with those of `compute_reward`
TOLERANCE = 1e-4  # relative and absolute; goals are float32 in replay


def find_goal_space(space: Any) -> Box:
    """Return the space of the goals in a policy's observations.

    Raises:
        ConfigError: the observations have no goals, or these are not vectors of one size.
    """
    parts = space.spaces if isinstance(space, Dict) else {}
    achieved, desired = parts.get("achieved_goal"), parts.get("desired_goal")
    if isinstance(achieved, Box) and isinstance(desired, Box) and achieved.shape == desired.shape == desired.shape[:1]:
        return desired
    found = ", ".join(f"'{key}' {list(part.shape or ())}" for key, part in parts.items()) or str(space)
    raise ConfigError(
        f"{BUFFER} needs observations with 'achieved_goal' and 'desired_goal', vectors of one size, as "
        f"gymnasium-robotics has them, got {found}: leave the type out, or wrap the environment."
    )


def has_goals(space: Any) -> bool:
    """Return whether a policy's observations have goals."""
    try:
        find_goal_space(space)
    except ConfigError:
        return False
    return True


class GoalEnv:
    """Asks one environment for the rewards and the ends of steps with other goals than its own.

    Args:
        env: the environment as a policy sees it, with all its wrappers. It is played for a few steps.
        goal_type: type of the numbers of a goal, as the environment has them.

    Attributes:
        terminates: whether `compute_terminated` exists and says that a goal which is reached exactly is an end.

    Raises:
        ConfigError: the environment has no goals, or no `compute_reward` that gives the rewards which it returns.
    """

    def __init__(self, env: Env[Any, Any], goal_type: Any) -> None:
        find_goal_space(env.observation_space)
        self._type, self._name = goal_type, type(env.unwrapped).__name__
        if not env.has_wrapper_attr("compute_reward"):
            raise ConfigError(
                f"{BUFFER}: {self._name} has no method compute_reward(achieved_goal, desired_goal, info), which "
                "returns the rewards that other goals would have earned: add it."
            )
        _check_wrappers(env)
        self._compute_reward: Callable[..., Any] = env.get_wrapper_attr("compute_reward")
        achieved_BG, desired_BG, reward_B = _play(env)
        self._check_rewards(achieved_BG, desired_BG, reward_B)
        self.terminates = env.has_wrapper_attr("compute_terminated")
        if self.terminates:
            self._compute_terminated: Callable[..., Any] = env.get_wrapper_attr("compute_terminated")
            self._ends_batches = False
            with suppress(Exception):  # a method for single goals may raise anything; they are tried next
                shape = np.shape(self._ask(self._compute_terminated, achieved_BG, desired_BG))
                self._ends_batches = shape == reward_B.shape
            ended_B = attempt(lambda: self.terminated(achieved_BG, achieved_BG), self._name, "compute_terminated")
            self.terminates = bool(ended_B.any())

    def rewards(self, achieved_BG: Tensor, desired_BG: Tensor) -> Tensor:
        """Return the rewards `[B]` of steps that led to the achieved goals, if the others were desired."""
        reward_B = np.asarray(self._ask(self._compute_reward, achieved_BG, desired_BG), np.float32)
        return torch.from_numpy(reward_B).to(achieved_BG.device)

    def terminated(self, achieved_BG: Tensor, desired_BG: Tensor) -> Tensor:
        """Return whether steps that led to the achieved goals end an episode with the desired ones, bool `[B]`."""
        if self._ends_batches:
            ended = self._ask(self._compute_terminated, achieved_BG, desired_BG)
        else:
            pairs = zip(self._own(achieved_BG), self._own(desired_BG), strict=True)
            ended = [bool(self._compute_terminated(*pair, {})) for pair in pairs]
        return torch.from_numpy(np.asarray(ended, bool)).to(achieved_BG.device)

    def _ask(self, method: Any, achieved_BG: Tensor, desired_BG: Tensor) -> Any:
        return method(self._own(achieved_BG), self._own(desired_BG), {})

    def _own(self, goal_BG: Tensor) -> np.ndarray:
        return goal_BG.numpy(force=True).astype(self._type)

    def _check_rewards(self, achieved_BG: Tensor, desired_BG: Tensor, reward_B: np.ndarray) -> None:
        """Compare the rewards that the environment returned with those of `compute_reward`."""
        own_B = attempt(lambda: self.rewards(achieved_BG, desired_BG), self._name, "compute_reward for many goals")
        if own_B.shape != reward_B.shape:
            raise ConfigError(
                f"{BUFFER}: compute_reward of {self._name} returned an array of shape {list(own_B.shape)} for "
                f"{len(reward_B)} goals: expected a reward for each; compute along the last axis."
            )
        if (wrong := np.flatnonzero(~np.isclose(own_B.numpy(), reward_B, TOLERANCE, TOLERANCE))).size:
            step = wrong[0]
            raise ConfigError(
                f"{BUFFER}: {self._name} returned the reward {reward_B[step]:.6g} for a step, and its compute_reward "
                f"{own_B[step]:.6g}. Rewards for other goals must follow from compute_reward alone: leave out what "
                "changes them, or let compute_reward do the same."
            )


def _check_wrappers(env: Any) -> None:
    """Refuse wrappers that change rewards, outside of the one or the environment that has `compute_reward`."""
    while isinstance(env, Wrapper) and not hasattr(type(env), "compute_reward"):
        if isinstance(env, RewardWrapper):
            raise ConfigError(
                f"{BUFFER}: the wrapper {type(env).__name__} changes the rewards that are collected, but not those of "
                "compute_reward: leave it out, or give it a method compute_reward."
            )
        env = env.env


def _play(env: Env[Any, Any]) -> tuple[Tensor, Tensor, np.ndarray]:
    """Play a few random steps; return the goals that they achieved, the desired ones, and the rewards."""
    rows, obs = list[Any](), env.reset(seed=0)[0]
    env.action_space.seed(0)
    for _ in range(TRIAL_STEPS):
        next_obs, reward, terminated, truncated, _ = env.step(draw_action(env, obs))
        # copies, because an environment may use its arrays again
        rows.append((np.array(next_obs["achieved_goal"]), np.array(obs["desired_goal"]), float(reward)))
        obs = env.reset()[0] if terminated or truncated else next_obs
    achieved, desired, reward_B = (np.array(column, np.float32) for column in zip(*rows, strict=True))
    return torch.from_numpy(achieved), torch.from_numpy(desired), reward_B

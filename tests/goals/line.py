"""A line with goals, as an environment, and as random steps with a naive record of what samples of them must be."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict

from ding_lite.goals.her import HindsightReplayBuffer
from ding_lite.utils.registry import ENV_REGISTRY

GAMMA = 0.5


@ENV_REGISTRY.register("goal_line")
class Line(gymnasium.Env):
    """The action is added to the place; the reward is minus the distance to the goal, and within 0.1 of it is the end.

    Places and goals are from -2 to 2, and an episode is truncated after 8 steps.
    """

    config: ClassVar = dict(vector=True)

    def __init__(self, cfg_env: Any = None) -> None:
        goal = Box(-np.inf, np.inf, (1,), np.float64)
        self.observation_space = Dict(observation=goal, achieved_goal=goal, desired_goal=goal)
        self.action_space = Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._place, self._goal = self.np_random.uniform(-2, 2, (2, 1))
        self._step = 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self._place = np.clip(self._place + action, -2, 2)
        self._step += 1
        reward = self.compute_reward(self._place, self._goal, {})
        ended = bool(self.compute_terminated(self._place, self._goal, {}))
        return self._obs(), float(reward), ended, self._step == 8, {"is_success": ended}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        assert achieved_goal.dtype == np.float64  # as in the environment
        return -np.abs(achieved_goal - desired_goal)[..., 0]

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return np.abs(achieved_goal - desired_goal)[..., 0] < 0.1

    def _obs(self) -> dict[str, Any]:
        return {"observation": self._place * 2, "achieved_goal": self._place.copy(), "desired_goal": self._goal.copy()}


class LineOfSingles(Line):
    """Its `compute_terminated` takes single goals, as that of gymnasium-robotics' mazes."""

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        return bool(np.linalg.norm(achieved_goal - desired_goal) < 0.1)


class LineWithoutEnds(Line):
    compute_terminated = None  # type: ignore[assignment]


def create_buffer(num_rows: int, num_envs: int, env: type[Line] = Line, **options: Any) -> HindsightReplayBuffer:
    buffer = HindsightReplayBuffer(num_rows * num_envs, num_envs, **{"gamma": GAMMA, "seed": 1, **options})
    space = Line().observation_space
    buffer.fit(space, None, space, create_env=env)
    return buffer


def to_block(steps_TN: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Return steps as a collector's rollout block; a step has the keys of `LineHistory.steps`."""

    def column(key: str) -> torch.Tensor:
        return torch.tensor([[step[key] for step in steps_N] for steps_N in steps_TN])

    def obs(place: torch.Tensor, goal: torch.Tensor) -> dict[str, torch.Tensor]:
        parts = {"observation": 2 * place, "achieved_goal": place, "desired_goal": goal}
        return {key: part.float().unsqueeze(-1) for key, part in parts.items()}

    block: dict[str, Any] = {key: column(key) for key in ("action", "reward", "done", "traj_flag")}
    block |= {"obs": obs(column("place"), column("goal")), "episode_step": column("age").int()}
    block |= {"last_obs": obs(column("next")[-1], column("goal")[-1]), "reward": block["reward"].float()}
    if len(index := block["traj_flag"].flatten().nonzero().squeeze(1)):
        finals = obs(column("next").flatten()[index], column("goal").flatten()[index])
        block |= {"final_index": index, "final_obs": finals}
    return block


class LineHistory:
    """N random episodes on the line, whose places are all different, so that a goal shows from which step it is.

    An episode is truncated, or ends at its goal, or elsewhere ("fell").
    """

    def __init__(self, num_envs: int, seed: int = 0) -> None:
        self._rng, self._number, self.num_envs = np.random.default_rng(seed), 0, num_envs
        self._place_N, self._age_N = [self._new_place() for _ in range(num_envs)], [0] * num_envs
        self.steps: list[list[dict[str, Any]]] = []  # [time][env]

    def _new_place(self) -> float:
        self._number += 1
        return float(self._number)

    def play(self, n_step: int) -> dict[str, Any]:
        rows = [[self._step(n) for n in range(self.num_envs)] for _ in range(n_step)]
        self.steps += rows
        return to_block(rows)

    def _step(self, n: int) -> dict[str, Any]:
        kind = self._rng.choice(["go", "truncated", "reached", "fell"], p=[0.7, 0.1, 0.1, 0.1])
        place, after = self._place_N[n], self._new_place()
        goal = after if kind == "reached" else -float(self._rng.integers(1, 9))
        step = {"kind": kind, "place": place, "next": after, "goal": goal, "age": self._age_N[n], "action": [0.0]}
        step |= {"reward": -abs(after - goal), "done": kind in ("reached", "fell"), "traj_flag": kind != "go"}
        self._age_N[n] = 0 if kind != "go" else self._age_N[n] + 1
        self._place_N[n] = after if kind == "go" else self._new_place()
        return step

    def time(self, place: int, num_rows: int) -> tuple[int, int]:
        """Return the time of the newest step that was written to a place of the ring, and its environment."""
        row, n = divmod(place, self.num_envs)
        return max(range(row, len(self.steps), num_rows)), n

    def goal_times(self, time: int, n: int, strategy: str, num_rows: int) -> set[int]:
        """Return the times of the steps whose achieved goal a sample of this step may get."""
        known = len(self.steps) - 1  # the first time whose next observation is still unknown, unless it was cut there
        last = next((t for t in range(time, known + 1) if self.steps[t][n]["traj_flag"]), known - 1)
        first = max(time - self.steps[time][n]["age"], len(self.steps) - num_rows, 0)
        return {"final": {last}, "future": {*range(time, last + 1)}, "episode": {*range(first, last + 1)}}[strategy]

    def sample(self, time: int, n: int, nstep: int, goal: float | None) -> dict[str, Any]:
        """Return the n-step transition that starts at this step, with another goal unless it is None."""
        reward = 0.0
        for k in range(nstep):
            step = self.steps[time + k][n]
            done, of_step = step["done"], step["reward"]
            if goal is not None:
                done, of_step = step["next"] == goal or step["kind"] == "fell", -abs(step["next"] - goal)
            reward += GAMMA**k * of_step
            if done or step["traj_flag"]:
                break
        seen = step["goal"] if goal is None else goal
        if goal is None and not step["traj_flag"]:
            seen = self.steps[time + k + 1][n]["goal"]
        return {
            "reward": reward,
            "done": done,
            "next": step["next"],
            "next_goal": seen,
            "value_gamma": GAMMA ** (k + 1),
        }

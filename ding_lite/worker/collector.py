"""Playing the environments: rows of steps become a rollout block, and counts become global.

Shapes: T steps, N environments, K episodes that ended in a block.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import create_empty_array

from ding_lite.envs.restorable import RestorableVectorEnv
from ding_lite.envs.spaces import random_actions
from ding_lite.torch_utils.modes import CollectMode
from ding_lite.utils.checkpoint.file import CheckpointError
from ding_lite.utils.dist.collectives import allreduce_data
from ding_lite.utils.dist.heartbeat import heartbeat
from ding_lite.utils.tree import lengthen, tree_map
from ding_lite.worker.env_state import to_arrays, to_tensors


class SampleCollector:
    """Plays N environments of one rank for T steps a call; every step played is returned.

    A rollout block is a dict of tensors (or nested dicts of them), valid until the next call:

    * what `policy.process_transition` returned, `[T, N, ...]`: obs, action, reward, done, traj_flag and more.
    * `episode_step` `[T, N]` int32: env steps since the last reset, as of `obs`. It is 0 where an episode starts, and
      only there: neither `done` nor `traj_flag` says so, since a lost life sets both while the game continues.
    * `final_obs` `[K, ...]` and `final_index` `[K]`: the true last observations of the K episodes that ended, and their
      places `t * N + n`.
    * `last_obs` `[N, ...]`: the observations that follow the last row.

    Attributes:
        envstep: env steps of all ranks so far.
        episode_count: episodes of all ranks so far.
        interrupted: whether any rank was asked to end, as all ranks agreed in the last collect.
    """

    def __init__(
        self,
        env: VectorEnv,
        policy: CollectMode,
        n_sample: int,
        seeds: list[int],
        interrupt: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the collector of a policy's `collect_mode`.

        Args:
            env: N environments.
            policy: the `collect_mode`.
            n_sample: env steps of this rank in a collect, a multiple of N.
            seeds: of the environments.
            interrupt: returns whether this rank was asked to end.
        """
        self._env, self._policy, self._interrupt = env, policy, interrupt
        self._num_envs, self._share = env.num_envs, n_sample // env.num_envs
        self._rows = RolloutRows(env.observation_space)
        self.envstep, self.episode_count, self.interrupted = 0, 0, False
        env.action_space.seed(seeds[0])
        self.reset(seeds)

    def reset(self, seeds: list[int] | None = None) -> None:
        """Start new episodes everywhere."""
        self._obs, _ = self._env.reset(seed=seeds)  # type: ignore[arg-type]  # it takes lists
        self._episode_step_N = np.zeros(self._num_envs, np.int32)
        self._policy.reset()

    def collect(self, n_sample: int | None = None, random: bool = False) -> tuple[dict[str, Any], dict[str, float]]:
        """Play `n_sample` steps, at random or by the policy at the present global env step.

        Returns:
            What the policy makes of the rollout block, and sums over all ranks for this collect: `env_step`; `episode`s
            that ended, their `return` and `length`; `duration` in seconds, the mean over ranks.
        """
        start = time.perf_counter()
        n_step = n_sample // self._num_envs if n_sample else self._share
        kwargs = self._policy.get_collect_kwargs(self.envstep)
        self._rows.reserve(n_step)
        for t in range(n_step):
            self._play(t, random, kwargs)
        block, ends = self._rows.take(n_step, self._obs)
        return self._policy.get_train_sample(block), self._count(n_step, ends, time.perf_counter() - start)

    def _play(self, t: int, random: bool, kwargs: dict[str, Any]) -> np.ndarray:
        """Take one step in every environment and write row `t`; return which episodes ended, `[N]`."""
        heartbeat("collect")
        obs = self._rows.write_obs(t, self._obs)
        output = self._policy.forward(obs, **kwargs)
        if random:
            output["action"] = tree_map(torch.as_tensor, random_actions(self._env.action_space, obs))
        self._obs, reward, terminated, truncated, info = self._env.step(tree_map(to_numpy, output["action"]))
        ended = terminated | truncated
        done, cut = terminated, ended
        if "life_lost" in info:
            done, cut = terminated | info["life_lost"], ended | info["life_lost"]
        timestep = SimpleNamespace(reward=reward, done=done, traj_flag=cut, info=info)
        row = self._policy.process_transition(obs, output, timestep)
        if row.get("obs") is obs:
            del row["obs"]  # it is in its place already
        row["episode_step"] = self._episode_step_N
        self._rows.write(t, row)
        self._episode_step_N += 1
        if "final_obs" in info:
            index_K = np.flatnonzero(ended)
            self._rows.add_ends(t * self._num_envs + index_K, index_K, info)
            self._episode_step_N[index_K] = 0
            self._policy.reset(index_K)
        return ended

    def _count(self, n_step: int, ends: dict[str, np.ndarray], seconds: float) -> dict[str, float]:
        """Sum the counts of all ranks in one collective, and agree on whether to end.

        Args:
            n_step: rows played.
            ends: `return` and `length` `[K]` of the episodes that count.
            seconds: how long it took.
        """
        total = allreduce_data(
            {
                "env_step": n_step * self._num_envs,
                "episode": len(ends["return"]),
                "return": float(ends["return"].sum()),
                "length": float(ends["length"].sum()),
                "duration": seconds,
                "rank": 1,
                "interrupt": int(self._interrupt()),
            }
        )
        self.envstep += total["env_step"]
        self.episode_count += total["episode"]
        self.interrupted = total["interrupt"] > 0
        total["duration"] /= total.pop("rank")
        return total

    def state_dict(self) -> dict[str, Any]:
        return {"envstep": self.envstep, "episode_count": self.episode_count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.envstep, self.episode_count = state["envstep"], state["episode_count"]

    def local_state_dict(self) -> dict[str, Any]:
        """Return this rank's state: its environments, and the random generator of actions."""
        assert isinstance(self._env, RestorableVectorEnv)  # environments that train are
        return {"env": to_tensors(self._env.state_dict())}

    def load_local_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Restore `local_state_dict`; return the environments that could not be restored and began new episodes.

        Raises:
            CheckpointError: the state is of another number of environments.
        """
        assert isinstance(self._env, RestorableVectorEnv)
        try:
            self._obs, length_N, restored_N = self._env.load_state_dict(to_arrays(state["env"]))
        except ValueError as error:
            raise CheckpointError(str(error)) from error
        self._episode_step_N = length_N.astype(np.int32)
        lost_K = np.flatnonzero(~restored_N)
        if len(lost_K):
            self._policy.reset(lost_K)
        return lost_K.tolist()


class RolloutRows:
    """Memory for the rows `[T, N, ...]` of a rollout block, used again in every collect, and a list of ended episodes.

    Args:
        observation_space: batched, of N environments.
    """

    def __init__(self, observation_space: gymnasium.Space[Any]) -> None:
        self._columns: dict[str, Any] = {"obs": create_empty_array(observation_space, 0, fn=np.empty)}
        self._ends: list[dict[str, Any]] = []
        self.capacity = 0  # rows

    def reserve(self, n_step: int) -> None:
        """Make room for at least `n_step` rows; those that are written stay."""
        if n_step > self.capacity:
            self._columns = tree_map(lambda rows: lengthen(rows, n_step), self._columns)
            self.capacity = n_step

    def write_obs(self, t: int, obs: Any) -> Any:
        """Copy observations `[N, ...]` into row `t`, and return that row, the block's own memory."""
        rows = self._columns["obs"]
        _write(rows, t, obs)
        return tree_map(lambda column: column[t], rows)

    def write(self, t: int, row: dict[str, Any]) -> None:
        """Copy nested arrays or tensors `[N, ...]` into row `t`; the first row says which columns there are."""
        for key, value in row.items():
            if key not in self._columns:
                self._columns[key] = tree_map(self._allocate, value)
            _write(self._columns[key], t, value)

    def _allocate(self, leaf: Any) -> np.ndarray:
        array = to_numpy(torch.as_tensor(leaf))
        return np.empty((self.capacity, *array.shape), array.dtype)

    def add_ends(self, place_K: np.ndarray, index_K: np.ndarray, info: dict[str, Any]) -> None:
        """Remember the episodes that ended at the places `t * N + n`, in the environments `index_K`."""
        totals = {"return": info["episode_return"][index_K], "length": info["episode_length"][index_K]}
        self._ends.append({"index": place_K, "obs": info["final_obs"]} | totals)

    def take(self, n_step: int, last_obs: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the block of the first `n_step` rows, and what ended in it; then forget the ends.

        Args:
            n_step: T.
            last_obs: the observations `[N, ...]` after the last row.

        Returns:
            The block, and `index` (the place `t * N + n`), `return` and `length` `[K]` of the ended episodes.
        """
        block = tree_map(lambda rows: torch.from_numpy(rows[:n_step]), self._columns)
        block["last_obs"] = tree_map(torch.from_numpy, last_obs)
        if not self._ends:
            return block, {"index": np.empty(0, np.int64), "return": np.empty(0), "length": np.empty(0)}
        ends = tree_map(lambda *parts: np.concatenate(parts), *self._ends)
        self._ends = []
        block["final_index"] = torch.from_numpy(ends["index"])
        block["final_obs"] = tree_map(torch.from_numpy, ends.pop("obs"))
        return block, ends


def to_numpy(leaf: torch.Tensor) -> np.ndarray:
    """Return a tensor of any device as an array, in the quickest way."""
    return leaf.numpy(force=True)


def _write(rows: Any, t: int, value: Any) -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            _write(rows[key], t, part)
    else:
        rows[t] = to_numpy(value) if isinstance(value, torch.Tensor) else value

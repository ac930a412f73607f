"""Collects samples by playing environments: one row per step, joined to a rollout block.

Shapes: T steps, N environments, K episodes that ended in a block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Protocol

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import create_empty_array

from ding_lite.envs.actions import random_actions
from ding_lite.envs.restorable import RestorableVectorEnv
from ding_lite.torch_utils.data import Output, Row
from ding_lite.utils.checkpoint.file import CheckpointError, storable, to_arrays, to_tensors
from ding_lite.utils.ranks.collectives import allreduce_data
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.tree import tree_map


class Player(Protocol):
    """What a collector calls, the methods of a `Policy`."""

    def begin_collect(self, envstep: int) -> dict[str, Any]:
        """Begin a collect after `envstep` env steps of all ranks; return the keyword arguments of `act` in it."""

    def act(self, obs: Any, **kwargs: Any) -> Output:
        """Return a dict with `action` `[N, ...]`, and whatever else is stored, for observations `[N, ...]`."""

    def to_row(self, obs: Any, output: Output, timestep: SimpleNamespace) -> Row:
        """Return the row `[N, ...]` of the rollout block for one step."""

    def reset(self, env_id: np.ndarray | None = None) -> None:
        """Forget the running episodes of these environments; None: of all."""


class SampleCollector:
    """Plays the N environments of this rank for T steps in each call of `collect`.

    The steps form a rollout block: a dict of tensors, or of nested dicts of tensors. It shares the collector's memory
    and is valid until the next call. Its keys are:

    * the columns `[T, N, ...]` that `policy.to_row` returned: obs, action, reward, done, traj_flag, and
      those that the policy adds.
    * `episode_step` `[T, N]` int32: env steps since the last reset, when `obs` was observed. An episode starts where it
      is 0. `done` and `traj_flag` do not show this, because a lost life or a point sets both while the game continues.
    * `final_obs` `[K, ...]` and `final_index` `[K]`: the true last observations of the K episodes that ended, and their
      places `t * N + n`. Both are absent if no episode ended.
    * `last_obs` `[N, ...]`: the observations that follow the last row.

    Args:
        env: vector environment of N environments, see `ding_lite.envs.vector_env`.
        policy: the policy that plays.
        n_sample: env steps that this rank plays in each collect, a multiple of N.
        seeds: one seed for each environment.
        interrupt: returns whether this process was asked to end.

    Attributes:
        envstep: env steps of all ranks so far.
        episode_count: episodes of all ranks that have ended so far.
        interrupted: whether any rank was asked to end before the last collect finished; the same on all ranks.
    """

    def __init__(
        self,
        env: VectorEnv,
        policy: Player,
        n_sample: int,
        seeds: list[int],
        interrupt: Callable[[], bool] = lambda: False,
    ) -> None:
        self._env, self._policy, self._interrupt = env, policy, interrupt
        self.num_envs, self._share = env.num_envs, n_sample // env.num_envs
        self._info_keys: tuple[str, ...] = getattr(env, "info_keys", ())
        self._stores_outputs = getattr(policy, "stores_outputs", True)  # with random actions too
        self._rows = RolloutRows(env.observation_space)
        self.envstep, self.episode_count, self.interrupted = 0, 0, False
        self._attributes: dict[str, Any] = {}  # what `set_attr` has set
        env.action_space.seed(seeds[0])
        self.reset(seeds)

    def reset(self, seeds: list[int] | None = None) -> None:
        """Start a new episode in every environment.

        Args:
            seeds: one seed for each environment; None: the environments continue with their own seeds.
        """
        self._obs, _ = self._env.reset(seed=seeds)  # type: ignore[arg-type]  # lists are accepted
        self._episode_step_N = np.zeros(self.num_envs, np.int32)
        self._ended_N = np.zeros(self.num_envs, np.bool_)  # which episodes the last step has ended
        self._policy.reset()

    def collect(self, n_sample: int | None = None, random: bool = False) -> tuple[dict[str, Any], dict[str, float]]:
        """Play T steps in every environment.

        Collective: all ranks must call it, because counts are summed over ranks.

        Args:
            n_sample: env steps of this rank, T * N, instead of the constructor's.
            random: draw actions at random instead of using those of the policy.

        Returns:
            The rollout block, and figures of this collect.
            The figures are sums over all ranks: `env_step`; `episode`, the number of episodes that ended; `return` and
            `length` (env steps) of these episodes; for each key of `env.info_keys`, `info/KEY` of these episodes, and
            `info/KEY/episodes`, the number of them that reported it. `duration` is the mean over ranks, in seconds.
        """
        start, n_step = time.perf_counter(), 0
        kwargs = self._policy.begin_collect(self.envstep)
        for t in self._steps(n_sample):
            heartbeat("collect")
            obs = self._rows.write_obs(t, self._obs)
            output = {} if random and not self._stores_outputs else self._policy.act(obs, **kwargs)
            if random:
                output["action"] = tree_map(torch.as_tensor, random_actions(self._env.action_space, obs))
            self._obs, reward, terminated, truncated, info = self._env.step(tree_map(to_numpy, output["action"]))
            self._ended_N = terminated | truncated
            done, cut = terminated, self._ended_N
            if "part_ended" in info:
                done, cut = terminated | info["part_ended"], self._ended_N | info["part_ended"]
            timestep = SimpleNamespace(reward=reward, done=done, traj_flag=cut, info=info)
            row = self._policy.to_row(obs, output, timestep)
            if row.get("obs") is obs:
                del row["obs"]  # `write_obs` has stored it already
            row["episode_step"] = self._episode_step_N
            self._rows.write(t, row)
            self._episode_step_N += 1
            if "final_obs" in info:
                index_K = np.flatnonzero(self._ended_N)
                self._rows.add_ends(t * self.num_envs + index_K, index_K, info)
                self._episode_step_N[index_K] = 0
                self._policy.reset(index_K)
            n_step = t + 1
        block, ends = self._rows.take(n_step, self._obs)
        return block, self._count(n_step, self._counted(ends), time.perf_counter() - start)

    def _steps(self, n_sample: int | None) -> Iterable[int]:
        """Return the numbers t of the steps of a collect, for which the memory has room."""
        n_step = n_sample // self.num_envs if n_sample else self._share
        self._rows.reserve(n_step)
        return range(n_step)

    def _counted(self, ends: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return which of the ended episodes count in the figures, see `RolloutRows.take`; here all."""
        return ends

    def _count(self, n_step: int, ends: dict[str, np.ndarray], seconds: float) -> dict[str, float]:
        """Return the figures that `collect` describes; all ranks agree on whether to end, in the same all-reduce.

        `ends` are `return` and `length` `[K]`, and `info` `[K, I]`, of the episodes to count.
        """
        infos: dict[str, float] = {}
        for i, key in enumerate(self._info_keys):
            value_K = ends["info"][:, i] if "info" in ends else np.empty(0)
            known_K = ~np.isnan(value_K)
            infos |= {f"info/{key}": float(value_K[known_K].sum()), f"info/{key}/episodes": int(known_K.sum())}
        total = allreduce_data(
            {
                **infos,
                "env_step": n_step * self.num_envs,
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

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of this rank's environments from now on, also after the run is resumed.

        Args:
            name: the attribute of the environment or of one of its wrappers.
            values: one value, or a list with one for each of the N environments, as for gymnasium's `set_attr`.

        Raises:
            UserError: the environments have no such attribute, or the values cannot be part of a checkpoint.
        """
        values = storable(values)
        self._env.set_attr(name, values)  # type: ignore[attr-defined]  # every one of `create_vector_env` has it
        self._attributes[name] = values

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, and the attributes that have one value; both are the same on all ranks."""
        single = {name: value for name, value in self._attributes.items() if not isinstance(value, list)}
        counts = {"envstep": self.envstep, "episode_count": self.episode_count}
        return counts | {"attributes": to_tensors(single)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts that `state_dict` returned; the environments stay as they are."""
        self.envstep, self.episode_count = state["envstep"], state["episode_count"]
        self._attributes = to_arrays(state.get("attributes", {}))

    def local_state_dict(self) -> dict[str, Any]:
        """Return the state of this rank's environments, and of the random generator of their actions."""
        assert isinstance(self._env, RestorableVectorEnv)  # true for all environments that a run collects from
        return {"env": to_tensors(self._env.state_dict())}

    def load_local_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Restore a state that `local_state_dict` returned.

        Returns:
            The indices of the environments that could not be restored. They have started new episodes.

        Raises:
            CheckpointError: the state belongs to a different number of environments.
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
    """The memory of a rollout block, reused by every collect, and a list of the episodes that ended in the block.

    Attributes:
        capacity: rows that fit into the memory.
    """

    def __init__(self, observation_space: gymnasium.Space[Any]) -> None:
        self._columns: dict[str, Any] = {"obs": create_empty_array(observation_space, 0, fn=np.empty)}
        self._ends: list[dict[str, Any]] = []
        self.capacity = 0

    def reserve(self, n_step: int) -> None:
        """Make room for at least `n_step` rows. Rows that have been written are kept."""
        if n_step > self.capacity:
            self._columns = tree_map(lambda rows: np.resize(rows, (n_step, *rows.shape[1:])), self._columns)
            self.capacity = n_step

    def write_obs(self, t: int, obs: Any) -> Any:
        """Copy observations `[N, ...]` into row `t`. Return a view of this row, not a copy."""
        rows = self._columns["obs"]
        _write(rows, t, obs)
        return tree_map(lambda column: column[t], rows)

    def write(self, t: int, row: Row) -> None:
        """Copy a nested dict of arrays or tensors `[N, ...]` into row `t`; a new key gets a new column."""
        for key, value in row.items():
            if key not in self._columns:
                self._columns[key] = tree_map(self._allocate, value)
            _write(self._columns[key], t, value)

    def _allocate(self, leaf: Any) -> np.ndarray:
        array = to_numpy(torch.as_tensor(leaf))
        return np.empty((self.capacity, *array.shape), array.dtype)

    def add_ends(self, place_K: np.ndarray, index_K: np.ndarray, info: dict[str, Any]) -> None:
        """Record the K episodes that ended in one step.

        Args:
            place_K: their places `t * N + n`.
            index_K: their environments.
            info: the vector environment's info of this step: `episode_return` and `episode_length` `[N]`,
                `final_obs` `[K, ...]` and, if there is one, `episode_info` `[K, I]`.
        """
        totals = {"return": info["episode_return"][index_K], "length": info["episode_length"][index_K]}
        if "episode_info" in info:
            totals["info"] = info["episode_info"]
        self._ends.append({"index": place_K, "obs": info["final_obs"]} | totals)

    def take(self, n_step: int, last_obs: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the first `n_step` rows as a rollout block, and the recorded ends of episodes, which are cleared.

        Args:
            n_step: T.
            last_obs: `[N, ...]`, the observations that follow the last row.

        Returns:
            The block, see `SampleCollector`, and `index` (the place `t * N + n`), `return` and `length` `[K]`, and
            `info` `[K, I]` if there are `env.info_keys`, of the episodes that ended.
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
    """Return a tensor of any device as an array. It shares memory with a tensor on the CPU."""
    return leaf.numpy(force=True)


def _write(rows: Any, t: int, value: Any) -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            _write(rows[key], t, part)
    else:
        rows[t] = to_numpy(value) if isinstance(value, torch.Tensor) else value

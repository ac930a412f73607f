"""Collects samples by playing environments: one row per step, joined to a rollout block.

Shapes: T steps, N environments, K episodes that ended in a block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from ding_lite.envs.actions import random_actions
from ding_lite.torch_utils.data import Output, Row
from ding_lite.utils.checkpoint.file import CheckpointError, storable, to_arrays, to_tensors
from ding_lite.utils.ranks.collectives import allreduce_data
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.tree import tree_leaves, tree_map


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
        env_seconds: seconds of this rank's last collect in which the environments took their steps.
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
        self._device = getattr(env, "device", None)  # of a simulator that returns tensors; None: arrays of NumPy
        self._rows = RolloutRows(self._device)
        self.envstep, self.episode_count, self.interrupted, self.env_seconds = 0, 0, False, 0.0
        self._attributes: dict[str, Any] = {}  # what `set_attr` has set
        env.action_space.seed(seeds[0])
        self.reset(seeds)

    def reset(self, seeds: list[int] | None = None) -> None:
        """Start a new episode in every environment.

        Args:
            seeds: one seed for each environment; None: the environments continue with their own seeds.
        """
        self._obs, _ = self._env.reset(seed=seeds)  # type: ignore[arg-type]  # lists are accepted
        self._episode_step_N = self._rows.own(np.zeros(self.num_envs, np.int32))
        self._ended_N = self._rows.own(np.zeros(self.num_envs, np.bool_))  # True where the last step ended an episode
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
        start, n_step, self.env_seconds = time.perf_counter(), 0, 0.0
        kwargs = self._policy.begin_collect(self.envstep)
        for t in self._steps(n_sample):
            heartbeat("collect")
            obs = self._rows.write_obs(t, self._obs)
            output = {} if random and not self._stores_outputs else self._policy.act(obs, **kwargs)
            if random:
                seen = obs if self._device is None else tree_map(to_numpy, obs)
                output["action"] = tree_map(torch.as_tensor, random_actions(self._env.action_space, seen))
            action = output["action"] if self._device else tree_map(to_numpy, output["action"])
            acted = time.perf_counter()
            self._obs, reward, terminated, truncated, info = self._env.step(action)
            self.env_seconds += time.perf_counter() - acted
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
            if "resets" in info:  # of a simulator that spends a step on each reset, see `envs.batched`
                self._rows.repeat(t, info["resets"])
                self._ended_N = self._ended_N | info["resets"]
            self._episode_step_N += 1
            if "final_obs" in info:
                self._episode_step_N *= ~self._ended_N
                self._policy.reset(self._rows.add_ends(t, self._ended_N, info))
            n_step = t + 1
        block, ends = self._rows.take(n_step, self._obs)
        if self._device:
            self._env.check_block(block)  # type: ignore[attr-defined]  # a `BatchedVectorEnv`
        return block, self._count(n_step, self._counted(ends), time.perf_counter() - start)

    def _steps(self, n_sample: int | None) -> Iterable[int]:
        """Return the numbers t of the steps of a collect, for which the memory has room."""
        n_step = n_sample // self.num_envs if n_sample else self._share
        self._rows.reserve(n_step)
        return range(n_step)

    def _counted(self, ends: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return which of the ended episodes count in the figures, see `RolloutRows.take`; not repeated rows."""
        real_K = ends["length"] > 0
        return {key: values[real_K] for key, values in ends.items()}

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
        return {"env": to_tensors(self._env.state_dict())}  # type: ignore[attr-defined]  # see `create_vector_env`

    def load_local_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Restore a state that `local_state_dict` returned.

        Returns:
            The indices of the environments that could not be restored. They have started new episodes.

        Raises:
            CheckpointError: the state belongs to a different number of environments.
        """
        try:
            self._obs, length_N, restored_N = self._env.load_state_dict(to_arrays(state["env"]))  # type: ignore[attr-defined]
        except ValueError as error:
            raise CheckpointError(str(error)) from error
        self._episode_step_N = self._rows.own(length_N.astype(np.int32))
        lost_K = np.flatnonzero(~restored_N)
        if len(lost_K):
            self._policy.reset(lost_K)
        return lost_K.tolist()


class RolloutRows:
    """The memory of a rollout block, reused by every collect, and a list of the episodes that ended in the block.

    Its columns are tensors. Arrays of NumPy are written through views of them.

    Args:
        device: the device of the columns, where environments return tensors; None: they return arrays of NumPy.

    Attributes:
        capacity: rows that fit into the memory.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device
        self._columns: dict[str, Any] = {}
        self._views: dict[str, Any] = {}  # what is written: the columns on a device, else views of them
        self._ends: list[dict[str, Any]] = []
        self.capacity, self._last = 0, 0

    def own(self, array: np.ndarray) -> Any:
        """Return an array in the form of the environments' arrays: on a device, as a tensor."""
        return array if self._device is None else torch.as_tensor(array, device=self._device)

    def reserve(self, n_step: int) -> None:
        """Make room for at least `n_step` rows. Rows that have been written are kept."""
        if n_step > self.capacity:
            self._columns = tree_map(lambda rows: _grown(rows, n_step), self._columns)
            self._views = tree_map(self._view, self._columns)
            self.capacity = n_step

    def _view(self, rows: torch.Tensor) -> Any:
        return rows.numpy() if self._device is None else rows

    def write_obs(self, t: int, obs: Any) -> Any:
        """Copy observations `[N, ...]` into row `t`. Return a view of this row, not a copy."""
        self.write(t, {"obs": obs})
        return tree_map(lambda rows: rows[t], self._views["obs"])

    def write(self, t: int, row: Row) -> None:
        """Copy a nested dict of arrays or tensors `[N, ...]` into row `t`; a new key gets a new column."""
        for key, value in row.items():
            if key not in self._columns:
                self._columns[key] = tree_map(self._allocate, value)
                self._views[key] = tree_map(self._view, self._columns[key])
            _write(self._views[key], t, value)

    def repeat(self, t: int, where_N: torch.Tensor) -> None:
        """Write the row before row `t` over it where the mask is true, and where it is not as `active`; on a device.

        The row before the first one is the last one that was taken.
        """
        for rows in tree_leaves(self._columns):
            before = rows[t - 1 if t else self._last]
            rows[t].copy_(torch.where(where_N.view(-1, *[1] * (before.ndim - 1)), before, rows[t]))
        self.write(t, {"active": ~where_N})

    def _allocate(self, leaf: Any) -> torch.Tensor:
        tensor = torch.as_tensor(leaf)
        return torch.empty((self.capacity, *tensor.shape), dtype=tensor.dtype, device=self._device or "cpu")

    def add_ends(self, t: int, ended_N: Any, info: dict[str, Any]) -> Any:
        """Record the episodes that ended in step `t`; return what `Policy.reset` takes for them.

        Args:
            t: the step.
            ended_N: which episodes ended.
            info: the vector environment's info of this step: `episode_return` and `episode_length` `[N]`,
                `final_obs` `[K, ...]` and, if there is one, `episode_info` `[K, I]`; on a device, these two are
                `[N, ...]`.
        """
        index_K = None if self._device else np.flatnonzero(ended_N)
        totals = {"return": info["episode_return"], "length": info["episode_length"]}
        if index_K is not None:
            totals = {key: total_N[index_K] for key, total_N in totals.items()}
        if "episode_info" in info:
            totals["info"] = info["episode_info"]
        place = ended_N if index_K is None else t * len(ended_N) + index_K
        self._ends.append({"index": place, "obs": info["final_obs"]} | totals)
        return ended_N if index_K is None else index_K

    def take(self, n_step: int, last_obs: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the first `n_step` rows as a rollout block, and the recorded ends of episodes, which are cleared.

        Args:
            n_step: T.
            last_obs: `[N, ...]`, the observations that follow the last row.

        Returns:
            The block, see `SampleCollector`, and `index` (the place `t * N + n`), `return` and `length` `[K]`, and
            `info` `[K, I]` if there are `env.info_keys`, of the episodes that ended.
        """
        block = tree_map(lambda rows: rows[:n_step], self._columns)
        block["last_obs"] = tree_map(torch.as_tensor, last_obs)
        ends, self._ends, self._last = self._joined(), [], n_step - 1
        if not len(ends["index"]):
            return block, {"index": np.empty(0, np.int64), "return": np.empty(0), "length": np.empty(0)}
        block["final_index"] = ends["index"]
        block["final_obs"] = ends.pop("obs")
        return block, tree_map(to_numpy, ends)

    def _joined(self) -> dict[str, Any]:
        """Return the ends of all steps; on a device, this waits for it, once a collect."""
        if not self._ends:
            return {"index": ()}
        if self._device is None:
            return tree_map(lambda *parts: torch.from_numpy(np.concatenate(parts)), *self._ends)
        ends_TN = tree_map(lambda *parts: torch.stack(parts), *self._ends)
        index_K = ends_TN.pop("index").flatten().nonzero().squeeze(1)
        return {"index": index_K} | tree_map(lambda leaf: leaf.flatten(0, 1)[index_K], ends_TN)


def _grown(rows: torch.Tensor, n_step: int) -> torch.Tensor:
    grown = rows.new_empty(n_step, *rows.shape[1:])
    grown[: len(rows)] = rows
    return grown


def to_numpy(leaf: torch.Tensor) -> np.ndarray:
    """Return a tensor of any device as an array. It shares memory with a tensor on the CPU."""
    return leaf.numpy(force=True)


def _write(rows: Any, t: int, value: Any) -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            _write(rows[key], t, part)
    else:
        rows[t] = to_numpy(value) if isinstance(value, torch.Tensor) and not isinstance(rows, torch.Tensor) else value

"""Playing the environments: rows of steps become a rollout block, and counts become global."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector.utils import create_empty_array

from ding_lite.envs import EpisodeMonitor
from ding_lite.utils.checkpoint.file import CheckpointError
from ding_lite.utils.dist.collectives import allreduce_data
from ding_lite.utils.dist.watchdog import heartbeat
from ding_lite.utils.tree import lengthen, tree_map


class SampleCollector:
    """Plays N environments of one rank for T steps a call; every step played is returned.

    A rollout block is a dict of tensors (or nested dicts of them), valid until the next call:

    * what `policy.process_transition` returned, `[T, N, ...]`: obs, action, reward, done, traj_flag and more.
    * `episode_step` `[T, N]`: env steps since the last reset, as of `obs`.
    * `final_obs` `[K, ...]` and `final_index` `[K]`: the true last observations of the K episodes that ended, and their
      places `t * N + n`.
    * `last_obs` `[N, ...]`: the observations that follow the last row.
    * `valid` `[T, N]`, only where an episode ended abnormally, because its environment failed: False at its steps.
      Neither these nor its steps in earlier blocks are to be learned from.

    Attributes:
        envstep: env steps of all ranks so far.
        episode_count: episodes of all ranks so far.
        interrupted: whether any rank was asked to end, as all ranks agreed in the last collect.
    """

    def __init__(
        self,
        env: EpisodeMonitor,
        policy: SimpleNamespace,
        n_sample: int,
        seeds: list[int],
        interrupt: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take a policy's `collect_mode`; `n_sample` is env steps of this rank and collect, a multiple of N."""
        self._env, self._policy, self._interrupt = env, policy, interrupt
        self._num_envs, self._share = env.num_envs, n_sample // env.num_envs
        self._rows = RolloutRows(env.observation_space)
        self.envstep, self.episode_count, self.interrupted = 0, 0, False
        env.action_space.seed(seeds[0])
        self.reset(seeds)

    def reset(self, seeds: list[int] | None = None) -> None:
        """Start new episodes everywhere."""
        self._obs, _ = self._env.reset(seed=seeds)
        self._episode_step_N = np.zeros(self._num_envs, np.int32)
        self._policy.reset()

    def collect(self, n_sample: int | None = None, random: bool = False) -> tuple[dict[str, Any], dict[str, float]]:
        """Play `n_sample` steps, at random or by the policy as of the global env step.

        Returns:
            The rollout block, and sums over all ranks for this collect: `env_step`; `episode`s that ended, their
            `return` and `length`; `abnormal` ends, which are no episodes; `duration` in seconds, the mean over ranks.
        """
        start = time.perf_counter()
        n_step = n_sample // self._num_envs if n_sample else self._share
        kwargs = self._policy.get_collect_kwargs(self.envstep)
        self._rows.reserve(n_step)
        for t in range(n_step):
            self._play(t, random, kwargs)
        block, totals = self._rows.take(n_step, self._obs)
        return self._policy.get_train_sample(block), self._count(n_step, totals, time.perf_counter() - start)

    def _play(self, t: int, random: bool, kwargs: dict[str, Any]) -> np.ndarray:
        """Take one step in every environment and write row `t`; return which episodes ended as they should, `[N]`."""
        heartbeat("collect")
        obs = self._rows.write_obs(t, self._obs)
        output = self._policy.forward(obs, **kwargs)
        if random:
            output["action"] = tree_map(torch.as_tensor, self._env.action_space.sample())
        self._obs, reward, terminated, truncated, info = self._env.step(tree_map(_to_numpy, output["action"]))
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
            if "abnormal" in info:
                self._rows.invalidate(t, info["abnormal"], self._episode_step_N)
                ended = ended & ~info["abnormal"]
            self._episode_step_N[index_K] = 0
            self._policy.reset(index_K)
        return ended

    def _count(self, n_step: int, totals: dict[str, Any], seconds: float) -> dict[str, float]:
        """Sum the counts of all ranks in one collective, and agree on whether to end.

        Args:
            n_step: rows played.
            totals: `return` and `length` `[K]` of the episodes that count, and the number of `abnormal` ends.
            seconds: how long it took.
        """
        total = allreduce_data(
            {
                "env_step": n_step * self._num_envs,
                "episode": len(totals["return"]),
                "return": float(totals["return"].sum()),
                "length": float(totals["length"].sum()),
                "abnormal": int(totals["abnormal"]),
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
        """Return what is this rank's own: its environments as they stand, and the draws of random actions."""
        return {
            "env": _map_state(torch.from_numpy, self._env.state_dict()),
            "episode_step": torch.from_numpy(self._episode_step_N.copy()),
            "action_space": [generator.bit_generator.state for generator in _generators(self._env.action_space)],
        }

    def load_local_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Take what `local_state_dict` gave; return the environments that could not go on, and began new episodes.

        Raises:
            CheckpointError: the state is of another number of environments.
        """
        if len(state["episode_step"]) != self._num_envs:
            raise CheckpointError(
                f"The checkpoint holds {len(state['episode_step'])} collecting environments of this rank, the config "
                f"says env.collector_env_num={self._num_envs}: set it to the number they were saved with."
            )
        self._obs, restored_N = self._env.load_state_dict(_map_state(torch.Tensor.numpy, state["env"]))
        self._episode_step_N = np.where(restored_N, state["episode_step"].numpy(), np.int32(0))
        for generator, own in zip(_generators(self._env.action_space), state["action_space"], strict=True):
            generator.bit_generator.state = own
        lost_K = np.flatnonzero(~restored_N)
        if len(lost_K):
            self._policy.reset(lost_K)
        return lost_K.tolist()


class RolloutRows:
    """Room for the rows `[T, N, ...]` of a rollout block, used again in every collect, and what ended in them."""

    def __init__(self, observation_space: gymnasium.Space) -> None:
        self._columns: dict[str, Any] = {"obs": create_empty_array(observation_space, 0, fn=np.empty)}
        self._ends: list[dict[str, Any]] = []
        self._abnormal: list[tuple[slice, int]] = []  # rows and environment of each episode that ended so
        self.capacity = 0

    def reserve(self, n_step: int) -> None:
        """Make room for at least so many rows; those that are written stay."""
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
        array = _to_numpy(torch.as_tensor(leaf))
        return np.empty((self.capacity, *array.shape), array.dtype)

    def add_ends(self, place_K: np.ndarray, index_K: np.ndarray, info: dict[str, Any]) -> None:
        """Remember the episodes that ended at places `t * N + n`, in environments `index_K`."""
        totals = {"return": info["episode_return"][index_K], "length": info["episode_length"][index_K]}
        self._ends.append({"index": place_K, "obs": info["final_obs"]} | totals)

    def invalidate(self, t: int, abnormal_N: np.ndarray, length_N: np.ndarray) -> None:
        """Remember that episodes ended abnormally in row `t`, after so many steps."""
        for n in np.flatnonzero(abnormal_N):
            self._abnormal.append((slice(max(t + 1 - int(length_N[n]), 0), t + 1), int(n)))

    def take(
        self, n_step: int, last_obs: Any, valid_TN: np.ndarray | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the block of the first `n_step` rows, and figures of what ended in it.

        The figures are `return` and `length` `[K]` of the episodes that ended in valid rows (None: in all rows but
        those of episodes that ended abnormally), and the number of `abnormal` ends.
        """
        block = tree_map(lambda rows: torch.from_numpy(rows[:n_step]), self._columns)
        block["last_obs"] = tree_map(torch.from_numpy, last_obs)
        if valid_TN is None and self._abnormal:
            valid_TN = np.ones(self._columns["episode_step"][:n_step].shape, np.bool_)
        if valid_TN is not None:
            for place in self._abnormal:
                valid_TN[place] = False
            block["valid"] = torch.from_numpy(valid_TN)
        abnormal, self._abnormal = len(self._abnormal), []
        if not self._ends:
            return block, {"return": np.empty(0), "length": np.empty(0), "abnormal": abnormal}
        ends = tree_map(lambda *parts: np.concatenate(parts), *self._ends)
        self._ends = []
        block["final_index"] = torch.from_numpy(ends["index"])
        block["final_obs"] = tree_map(torch.from_numpy, ends["obs"])
        counted_K = slice(None) if valid_TN is None else valid_TN.flatten()[ends["index"]]
        return block, {key: ends[key][counted_K] for key in ("return", "length")} | {"abnormal": abnormal}


def _to_numpy(leaf: torch.Tensor) -> np.ndarray:
    return leaf.numpy(force=True)  # the quickest way that takes tensors of any device


def _map_state(fn: Callable[[Any], Any], state: Any) -> Any:
    """Apply `fn` to the leaves of nested dicts and lists."""
    if isinstance(state, list):
        return [_map_state(fn, part) for part in state]
    return {key: _map_state(fn, part) for key, part in state.items()} if isinstance(state, dict) else fn(state)


def _generators(space: gymnasium.Space) -> list[np.random.Generator]:
    """Return the random generators of a space and of the spaces that it is made of."""
    parts = getattr(space, "spaces", ())
    parts = parts.values() if isinstance(parts, dict) else parts
    return [space.np_random, *(generator for part in parts for generator in _generators(part))]


def _write(rows: Any, t: int, value: Any) -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            _write(rows[key], t, part)
    else:
        rows[t] = _to_numpy(value) if isinstance(value, torch.Tensor) else value

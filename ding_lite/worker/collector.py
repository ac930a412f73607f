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

from ding_lite.utils.distributed import allreduce_data
from ding_lite.utils.tree import tree_map


class SampleCollector:
    """Plays N environments of one rank for T steps a call; every step played is returned.

    A rollout block is a dict of tensors, valid until the next call:

    * what `policy.process_transition` returned, `[T, N, ...]`: obs, action, reward, done, traj_flag and more.
    * `episode_step` `[T, N]`: env steps since the last reset, as of `obs`.
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
        env: gymnasium.vector.VectorEnv,
        policy: SimpleNamespace,
        n_sample: int,
        seeds: list[int],
        interrupt: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take a policy's `collect_mode`; `n_sample` is env steps of this rank and collect, a multiple of N."""
        self._env, self._policy, self._interrupt = env, policy, interrupt
        self._num_envs, self._n_step = env.num_envs, n_sample // env.num_envs
        self._block: dict[str, Any] = {}
        self._block_n_step = 0
        self.envstep, self.episode_count, self.interrupted = 0, 0, False
        env.action_space.seed(seeds[0])
        self.reset(seeds)

    def reset(self, seeds: list[int] | None = None) -> None:
        """Start new episodes everywhere."""
        self._obs, _ = self._env.reset(seed=seeds)  # type: ignore[arg-type]  # a list is gymnasium's own use
        self._episode_step_N = np.zeros(self._num_envs, np.int32)
        self._policy.reset()

    def collect(self, n_sample: int | None = None, random: bool = False) -> tuple[dict[str, Any], dict[str, float]]:
        """Play `n_sample` steps, at random or by the policy as of the global env step.

        Returns:
            The rollout block, and sums over all ranks for this collect: `env_step`; `episode`s that ended, their
            `return` and `length`; `duration` in seconds, the mean over ranks.
        """
        start = time.perf_counter()
        episodes: list[tuple[float, int]] = []
        finals: list[tuple[np.ndarray, Any]] = []
        n_step = n_sample // self._num_envs if n_sample else self._n_step
        kwargs = self._policy.get_collect_kwargs(self.envstep)
        block = self._block_of(n_step)
        for t in range(n_step):
            obs = tree_map(lambda rows: rows[t], block["obs"])  # noqa: B023 (called at once)
            tree_map(np.copyto, obs, self._obs)
            output = self._policy.forward(obs, **kwargs)
            if random:
                output["action"] = torch.as_tensor(self._env.action_space.sample())
            self._obs, reward, terminated, truncated, info = self._env.step(output["action"].cpu().numpy())
            ended = terminated | truncated
            done = terminated | info["life_lost"] if "life_lost" in info else terminated
            timestep = SimpleNamespace(reward=reward, done=done, traj_flag=ended | done, info=info)
            row = self._policy.process_transition(obs, output, timestep)
            if row.get("obs") is obs:
                del row["obs"]  # it is in its place already
            self._write_row(block, t, n_step, row | {"episode_step": self._episode_step_N})
            self._episode_step_N += 1
            if ended.any():
                index_K = np.flatnonzero(ended)
                finals.append((t * self._num_envs + index_K, info["final_obs"]))
                episodes += zip(info["episode_return"][index_K], info["episode_length"][index_K], strict=True)
                self._episode_step_N[index_K] = 0
                self._policy.reset(index_K)
        samples = tree_map(torch.from_numpy, block | {"last_obs": self._obs})
        if finals:
            samples["final_index"] = torch.from_numpy(np.concatenate([index for index, _ in finals]))
            samples["final_obs"] = tree_map(
                lambda *arrays: torch.from_numpy(np.concatenate(arrays)), *(obs for _, obs in finals)
            )
        return self._policy.get_train_sample(samples), self._count(n_step, episodes, time.perf_counter() - start)

    def _count(self, n_step: int, episodes: list[tuple[float, int]], seconds: float) -> dict[str, float]:
        """Sum the counts of all ranks in one collective, and agree on whether to end."""
        total = allreduce_data(
            {
                "env_step": n_step * self._num_envs,
                "episode": len(episodes),
                "return": float(sum(episode[0] for episode in episodes)),
                "length": float(sum(episode[1] for episode in episodes)),
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

    def _block_of(self, n_step: int) -> dict[str, Any]:
        """Return the preallocated block, made anew when the number of rows changes."""
        if self._block_n_step != n_step:
            self._block = {"obs": create_empty_array(self._env.observation_space, n_step, fn=np.empty)}
            self._block_n_step = n_step
        return self._block

    @staticmethod
    def _write_row(block: dict[str, Any], t: int, n_step: int, row: dict[str, Any]) -> None:
        for key, value in row.items():
            array = value.cpu().numpy() if isinstance(value, torch.Tensor) else value
            if key not in block:
                block[key] = np.empty((n_step, *array.shape), array.dtype)
            tree_map(np.copyto, tree_map(lambda rows: rows[t], block[key]), array)

    def state_dict(self) -> dict[str, Any]:
        return {"envstep": self.envstep, "episode_count": self.episode_count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.envstep, self.episode_count = state["envstep"], state["episode_count"]

"""What is added to vector environments: actions of -1..1, episodes' numbers and totals, and a state that is restored.

See `ding_lite.envs.vector_env` for the contract. Never imports torch: worker processes import this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from ding_lite.envs.seeded_env import derive_seeds, episode_seed
from ding_lite.utils.tree import lengthen, tree_leaves, tree_map

JOURNAL_LIMIT = 32_768  # env steps; Atari's half an hour is 27,000. 2 MB for 8 environments of discrete actions


class BoxActions:
    """Actions of a Box of floats, from the policy's side to the environment's.

    With `act_scale`, -1..1 is low..high in every dimension that is bounded on both sides. Whatever is beyond a bound is
    clipped to it; an unbounded dimension passes unchanged.

    Attributes:
        space: the policy's side.
    """

    def __init__(self, box: Box, act_scale: bool) -> None:
        self._box = box
        scaled = box.bounded_below & box.bounded_above & act_scale
        low, high = np.where(scaled, box.low, -1.0), np.where(scaled, box.high, 1.0)
        self._centre, self._half = low / 2 + high / 2, high / 2 - low / 2  # 0 and 1 where nothing is scaled
        one = box.dtype.type(1)
        self.space: Box = Box(np.where(scaled, -one, box.low), np.where(scaled, one, box.high), dtype=box.dtype.type)

    def __call__(self, action: np.ndarray) -> np.ndarray:
        """Return the environment's actions for the policy's, `[N, ...]`, of the Box's type."""
        return np.clip(action * self._half + self._centre, self._box.low, self._box.high).astype(self._box.dtype)


def policy_side(space: gymnasium.Space, act_scale: bool) -> tuple[gymnasium.Space, Callable[[Any], Any]]:
    """Return the action space that a policy sees, and what turns its batched actions into the environment's."""
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        actions = BoxActions(space, act_scale)
        return actions.space, actions
    if isinstance(space, Dict) and set(space) == {"action_type", "action_args"}:
        args_space, to_args = policy_side(space["action_args"], act_scale)
        hybrid = Dict({"action_type": space["action_type"], "action_args": args_space})
        return hybrid, lambda action: {**action, "action_args": to_args(action["action_args"])}
    return space, lambda action: action


class ActionJournal:
    """The newest actions `[T, N, ...]`, or a dict of these, in a ring that is as long as the longest running episode.

    Args:
        limit: most rows.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._capacity = limit, min(256, limit)
        self._rows: Any = None
        self._count = 0  # rows written
        self._room = self._capacity  # rows until one that is needed is overwritten, at the earliest

    def append(self, actions: Any, length_N: np.ndarray) -> None:
        """Write a row; `length_N` says how many rows each environment's running episode has, without it."""
        if self._rows is None:
            self._rows = tree_map(lambda leaf: np.empty((self._capacity, *leaf.shape), leaf.dtype), actions)
        if self._room == 0:
            self._make_room(int(length_N.max()))
        _write_row(self._rows, self._count % self._capacity, actions)
        self._count += 1
        self._room -= 1

    def _make_room(self, longest: int) -> None:
        if longest >= self._capacity < self._limit:
            index = np.arange(self._count - self._capacity, self._count) % self._capacity
            self._capacity = min(2 * self._capacity, self._limit)
            self._rows = tree_map(lambda rows: lengthen(rows[index], self._capacity), self._rows)
            self._count = len(index)
        self._room = max(self._capacity - longest, 1)

    def read(self, n: int, length: int) -> Any:
        """Return the newest `length` actions of environment `n`; none, if there are not so many."""
        if length > min(self._count, self._capacity) or self._rows is None:
            length = 0
        index = np.arange(self._count - length, self._count) % max(self._capacity, 1)
        return np.empty(0, np.int64) if self._rows is None else tree_map(lambda rows: rows[index, n], self._rows)

    def fill(self, actions_N: list[Any]) -> None:
        """Write what N running episodes have, each `[T, ...]` or a dict of these, so that all end in the last row."""
        lengths = [_num_steps(actions) for actions in actions_N]
        rows = tree_map(lambda *leaves: _align(leaves, max(lengths)), *actions_N)
        for t in range(max(lengths)):
            self.append(tree_map(lambda leaf, t=t: leaf[t], rows), np.array(t))


def _align(leaves: Sequence[np.ndarray], length: int) -> np.ndarray:
    rows = np.zeros((length, len(leaves), *leaves[0].shape[1:]), leaves[0].dtype)
    for n, leaf in enumerate(leaves):
        rows[length - len(leaf) :, n] = leaf
    return rows


def _write_row(rows: Any, t: int, row: Any) -> None:
    if isinstance(rows, dict):
        for key, column in rows.items():
            _write_row(column, t, row[key])
    else:
        rows[t] = row


class EpisodeMonitor(VectorWrapper):
    """Adds true episode totals, final observations, lost lives and scaled actions to a SAME_STEP vector environment.

    It counts the episodes as the environments do, so that it knows the seed of each, see `SeededEnv`.

    Args:
        env: steps the environments.
        seed: of the first `reset()`, if that names none; each environment gets its own, derived from it.
        counts_episodes: whether `env` starts and replays episodes as `SeededEnv` does. If not, it gets the seed of the
            first episode at a reset, and its state cannot be restored.
        journal: whether to keep the actions that `state_dict` needs.
    """

    def __init__(
        self,
        env: VectorEnv,
        seed: int,
        *,
        frame_stack: int = 0,
        clip_rewards: bool = False,
        episodic_life: bool = False,
        act_scale: bool = True,
        counts_episodes: bool = True,
        journal: bool = False,
    ) -> None:
        super().__init__(env)
        self.single_action_space, self._to_env = policy_side(env.single_action_space, act_scale)
        if self.single_action_space is not env.single_action_space:
            self.action_space = batch_space(self.single_action_space, env.num_envs)
        self.frame_stack = frame_stack
        self._clip_rewards = clip_rewards
        self._episodic_life = episodic_life
        self._counts_episodes = counts_episodes
        self._journal = ActionJournal(JOURNAL_LIMIT) if journal else None
        self._obs: Any = None
        self._seed_N = np.array(derive_seeds(seed, n=env.num_envs))
        self._episode_N = np.full(env.num_envs, -1, np.int64)
        self._return_N = np.zeros(env.num_envs, np.float64)
        self._length_N = np.zeros(env.num_envs, np.int64)
        self._lives_N = np.zeros(env.num_envs, np.int64)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in every environment.

        Args:
            seed: one seed per environment, or one that theirs are derived from. None: each environment's next episode
                of the seed that it has, the constructor's at first.
            options: passed to the environments; `reset_mask` is refused, since the totals are those of all.
        """
        if options and "reset_mask" in options:
            raise ValueError("options['reset_mask'] is not supported: ended episodes restart by themselves.")
        if seed is not None:
            seed = derive_seeds(int(seed), n=self.num_envs) if isinstance(seed, int | np.integer) else seed
            self._seed_N, self._episode_N = np.array(seed), np.full(self.num_envs, -1, np.int64)
        return self._start_next(np.full(self.num_envs, True), options)

    def _start_next(self, mask_N: np.ndarray, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episode where `mask_N` says so; the observations are those of all."""
        self._episode_N[mask_N] += 1
        self._return_N[mask_N] = 0
        self._length_N[mask_N] = 0
        if self._counts_episodes:
            options = {"episode": self._episode_N.copy(), **(options or {})}
            seeds = self._seed_N.tolist()
        else:
            pairs = zip(self._seed_N.tolist(), self._episode_N.tolist(), strict=True)
            seeds = [episode_seed(seed, episode) for seed, episode in pairs]
        if not mask_N.all():
            options = {"reset_mask": mask_N, **(options or {})}
        self._obs, info = self.env.reset(seed=seeds, options=options)  # type: ignore[arg-type]  # gymnasium takes lists
        if self._episodic_life:
            self._lives_N[mask_N] = info["lives"][mask_N]
        return self._obs, info

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step in every environment; see the module's contract."""
        actions = self._to_env(actions)
        if self._journal:
            self._journal.append(actions, self._length_N)
        self._obs, reward_N, terminated_N, truncated_N, raw_info = self.env.step(actions)
        info = {key: value for key, value in raw_info.items() if key not in ("final_obs", "_final_obs")}
        self._return_N += reward_N
        self._length_N += 1
        info["episode_return"], info["episode_length"] = self._return_N.copy(), self._length_N.copy()
        ended_N = terminated_N | truncated_N
        if ended_N.any():
            info["final_obs"] = self._gather(raw_info["final_obs"], np.flatnonzero(ended_N))
            self._end(ended_N, info)
        if self._episodic_life:
            # where the game ended, lives already count for the next game
            info["life_lost"] = (info["lives"] < self._lives_N) & ~ended_N
            self._lives_N = info["lives"].copy()
        reward_N = np.sign(reward_N) if self._clip_rewards else reward_N
        return self._obs, reward_N.astype(np.float32), terminated_N, truncated_N, info

    def _end(self, ended_N: np.ndarray, info: dict[str, Any]) -> None:
        """Count the episodes that began where others ended; where they ended abnormally, begin them."""
        self._return_N[ended_N] = 0
        self._length_N[ended_N] = 0
        if "abnormal" not in info:
            self._episode_N[ended_N] += 1
            return
        abnormal_N = info["abnormal"]
        self._episode_N[ended_N & ~abnormal_N] += 1
        _, start = self._start_next(abnormal_N)
        if self._episodic_life:  # a failing worker reported none
            info["lives"] = np.where(abnormal_N, start["lives"], info.get("lives", 0))

    def _gather(self, final_obs: np.ndarray, index_K: np.ndarray) -> Any:
        """Return the observations of the environments `index_K` as one batch of our own."""
        if final_obs.dtype != object:
            return final_obs[index_K]
        space = self.single_observation_space
        rows = [final_obs[i] for i in index_K]
        return concatenate(space, rows, create_empty_array(space, n=len(rows), fn=np.empty))  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Any]:
        """Return what brings the running episodes back: arrays `[N, ...]` and a list of N episodes' actions."""
        journal = self._journal or ActionJournal(0)
        return {
            "seed": self._seed_N.copy(),
            "episode": self._episode_N.copy(),
            "return": self._return_N.copy(),
            "length": self._length_N.copy(),
            "obs": tree_map(np.array, self._obs),
            "actions": [journal.read(n, length) for n, length in enumerate(self._length_N.tolist())],
        }

    def load_state_dict(self, state: dict[str, Any]) -> tuple[Any, np.ndarray]:
        """Play the running episodes of a state again, up to where they were.

        An environment whose episode was too long for the journal, or that is not deterministic, starts its next one.

        Returns:
            The observations `[N, ...]`, and which environments are where they were, `[N]` bool.

        Raises:
            ValueError: the state is of another number of environments.
        """
        if len(state["seed"]) != self.num_envs:
            raise ValueError(f"The state is of {len(state['seed'])} environments, but there are {self.num_envs}.")
        known_N = np.array([_num_steps(actions) for actions in state["actions"]]) == state["length"]
        known_N &= self._counts_episodes
        pairs = zip(state["actions"], known_N, strict=True)
        actions_N = [actions if known else tree_map(lambda rows: rows[:0], actions) for actions, known in pairs]
        self._seed_N, self._episode_N = np.array(state["seed"]), state["episode"] - known_N
        options = {"actions": actions_N} if self._counts_episodes else None
        obs, info = self._start_next(np.full(self.num_envs, True), options)
        restored_N = known_N & info.get("replayed", False) & _same_rows(obs, state["obs"])
        self._return_N = np.where(restored_N, state["return"], 0.0)
        self._length_N = np.where(restored_N, state["length"], 0)
        if self._journal:
            self._journal = ActionJournal(JOURNAL_LIMIT)
            self._journal.fill(actions_N)
        if (known_N & ~restored_N).any():
            self._start_next(known_N & ~restored_N)
        return self._obs, restored_N


def _num_steps(actions: Any) -> int:
    return len(next(tree_leaves(actions)))


def _same_rows(left: Any, right: Any) -> np.ndarray:
    """Return for which environments observations `[N, ...]` are the same, bit for bit."""
    pairs = [zip(*leaves, strict=True) for leaves in zip(tree_leaves(left), tree_leaves(right), strict=True)]
    return np.all([[a.tobytes() == b.tobytes() for a, b in rows] for rows in pairs], axis=0)

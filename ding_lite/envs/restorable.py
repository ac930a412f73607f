"""Saves and restores the running episodes of environments, so that a resumed run equals an uninterrupted one.

An episode is a function of its seed, its number and its actions, see `seeded_env`, and of the attributes that
`set_attr` has set. These are saved, and replaying the actions restores any environment; no simulator has to save its
state. The engines are not involved.
Shapes: N environments, T steps of an episode.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from ding_lite.envs.episode_monitor import EpisodeMonitor
from ding_lite.utils.seed import derive_seeds, episode_seed
from ding_lite.utils.tree import tree_leaves, tree_map

JOURNAL_LIMIT = 32_768  # env steps: Atari's limit of half an hour is 27,000. 6 MB for 8 discrete actions a step


class RestorableVectorEnv(EpisodeMonitor):
    """Records the seeds, numbers and actions of the running episodes, and replays them when a state is loaded.

    Episodes can be restored only if they are started as `SeededEnv` starts them.

    Args:
        env, seed, options: as for `EpisodeMonitor`; the seeds of the environments are derived from `seed`.
        counts_episodes: whether the engine accepts `options["episode"]`. If not, environments get new seeds whenever
            all are reset, and start new episodes when a state is loaded.
    """

    def __init__(self, env: VectorEnv, seed: int, *, counts_episodes: bool = True, **options: Any) -> None:
        super().__init__(env, seed, **options)
        self._counts_episodes = counts_episodes
        self._journal = deque(maxlen=JOURNAL_LIMIT)
        self._seed_N = np.array(derive_seeds(seed, n=env.num_envs))
        self._attributes: dict[str, Any] = {}  # set before all running episodes began
        self._changes: list[tuple[int, str, Any]] = []  # set since then: the value of `_clock`, name, values

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in every environment, see `EpisodeMonitor.reset`.

        Raises:
            ValueError: `options` has a `reset_mask`. Ended episodes restart by themselves.
        """
        if options and "reset_mask" in options:
            raise ValueError("options['reset_mask'] is not supported: ended episodes restart by themselves.")
        if seed is not None:
            seed = derive_seeds(int(seed), n=self.num_envs) if isinstance(seed, int | np.integer) else seed
            self._seed_N, self._episode_N = np.array(seed), np.full(self.num_envs, -1, np.int64)
        self._settle(self._clock + 1)  # no running episode began before the changes
        return self._start_next(np.full(self.num_envs, True), options)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of the environments now, see `EpisodeMonitor.set_attr`."""
        super().set_attr(name, values)
        self._settle()
        self._changes.append((self._clock, name, values))

    def _settle(self, begin: int | None = None) -> None:
        """Move changes that are older than `begin`, by default the longest running episode, to `_attributes`."""
        begin = self._clock - int(self._length_N.max()) if begin is None else begin
        self._attributes |= {name: values for clock, name, values in self._changes if clock < begin}
        self._changes = [change for change in self._changes if change[0] >= begin]

    def _start_next(self, mask_N: np.ndarray, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episode where `mask_N` is True; return the observations of all environments."""
        self._episode_N = self._episode_N + mask_N
        return self._start(mask_N, options)

    def _start(self, mask_N: np.ndarray, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start episode `self._episode_N` where `mask_N` is True."""
        options, seeds = dict(options or {}), self._seed_N.tolist()
        if self._counts_episodes:
            options["episode"] = self._episode_N.copy()
        else:
            seeds = [episode_seed(*pair) for pair in zip(seeds, self._episode_N.tolist(), strict=True)]
        if not mask_N.all():
            options["reset_mask"] = mask_N
        return super().reset(seed=seeds, options=options or None)

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` restores the running episodes.

        `seed, episode, length` int64 `[N]`, `obs` `[N, ...]`, `actions`, a list of N arrays `[T, ...]` or dicts of
        these, `draws`, the states of the action space's random generators, `attributes`, and `changes` of these, lists
        of the age in steps, the name and the values.
        """
        self._settle()
        return {
            "seed": self._seed_N.copy(),
            "episode": self._episode_N.copy(),
            "length": self._length_N.copy(),
            "obs": tree_map(np.array, self._obs),
            "actions": self._actions(),
            "attributes": dict(self._attributes),
            "changes": [[self._clock - clock, name, values] for clock, name, values in self._changes],
            "draws": [generator.bit_generator.state for generator in _generators(self.action_space)],
        }

    def _actions(self) -> list[Any]:
        """Return the actions `[T, ...]` of each running episode; none of one that is longer than the journal."""
        if not self._journal:
            return [np.empty(0, np.int64)] * self.num_envs
        count, rows = len(self._journal), tree_map(lambda *leaves: np.stack(leaves), *self._journal)
        starts = [count - length if length <= count else count for length in self._length_N.tolist()]
        return [tree_map(lambda leaf: leaf[start:, n].copy(), rows) for n, start in enumerate(starts)]  # noqa: B023

    def load_state_dict(self, state: dict[str, Any]) -> tuple[Any, np.ndarray, np.ndarray]:
        """Replay the running episodes of a state, up to their last step.

        An environment starts its next episode instead if the episode was too long for the journal, or if the
        environment is not deterministic.

        Returns observations `[N, ...]`, the env steps since the resets, int `[N]`, and what was restored, bool `[N]`.

        Raises:
            ValueError: the state has a different number of environments.
        """
        if len(state["seed"]) != self.num_envs:
            raise ValueError(
                f"The checkpoint holds {len(state['seed'])} collecting environments of this rank, but the config says "
                f"env.collector_env_num={self.num_envs}: set it to {len(state['seed'])}."
            )
        for generator, own in zip(_generators(self.action_space), state["draws"], strict=True):
            generator.bit_generator.state = own
        length_N = np.array([len(next(tree_leaves(actions))) for actions in state["actions"]])
        known_N = (length_N == state["length"]) & self._counts_episodes
        self._journal = deque(maxlen=JOURNAL_LIMIT)
        self._seed_N, self._episode_N = np.array(state["seed"]), state["episode"] + ~known_N
        self._attributes, self._clock = state.get("attributes", {}), 0
        self._changes = [(-age, name, values) for age, name, values in state.get("changes", [])]
        restored_N = known_N & self._replay(state["actions"], np.where(known_N, length_N, 0))
        restored_N &= same_rows(self._obs, state["obs"])
        if (known_N & ~restored_N).any():
            self._start_next(known_N & ~restored_N)
        return self._obs, self._length_N.copy(), restored_N

    def _replay(self, actions_N: list[Any], length_N: np.ndarray) -> np.ndarray:
        """Start the episodes at different times, so that all of them take their last action in the same step.

        Returns which of them took all their actions without ending, bool `[N]`.
        """
        whole_N, longest, episode_N = np.full(self.num_envs, True), int(length_N.max()), self._episode_N
        for name, values in self._attributes.items():
            super().set_attr(name, values)
        self._change(range(longest + 1, sys.maxsize))
        self._start(np.full(self.num_envs, True))
        filler = actions_N[int(length_N.argmax())]  # supplies actions for environments that have not started yet
        for left in range(longest, 0, -1):
            if left < longest and (length_N == left).any():
                self._start(length_N == left)
            self._change(range(left, left + 1))
            rows = [
                tree_map(lambda leaf, t=length - left: leaf[t], actions)
                if length >= left
                else tree_map(lambda leaf: leaf[0], filler)
                for actions, length in zip(actions_N, length_N.tolist(), strict=True)
            ]
            row = tree_map(lambda *leaves: np.stack(leaves), *rows)
            _, _, terminated_N, truncated_N, _ = self.step(row)
            self._episode_N, self._clock = episode_N.copy(), 0  # the step counted, and episodes of the filler may end
            whole_N &= ~((terminated_N | truncated_N) & (length_N >= left))
        if longest and (length_N == 0).any():
            self._start(length_N == 0)
        self._change(range(1))
        return whole_N

    def _change(self, ages: range) -> None:
        """Repeat the changes of attributes with these ages in steps."""
        for clock, name, values in self._changes:
            if -clock in ages:
                super().set_attr(name, values)


def same_rows(left: Any, right: Any) -> np.ndarray:
    """Return which environments have identical observations in both batches `[N, ...]`, bool `[N]`."""
    pairs = [zip(*leaves, strict=True) for leaves in zip(tree_leaves(left), tree_leaves(right), strict=True)]
    return np.all([[a.tobytes() == b.tobytes() for a, b in rows] for rows in pairs], axis=0)


def _generators(space: gymnasium.Space[Any]) -> list[np.random.Generator]:
    """Return the random generators of a space and of its subspaces."""
    parts = getattr(space, "spaces", ())
    parts = parts.values() if isinstance(parts, dict) else parts
    return [space.np_random, *(generator for part in parts for generator in _generators(part))]

"""Adds episode totals, final observations, ended parts of games and scaled actions to gymnasium's vector environments.

`ding_lite.envs.vector_env` describes the contract. Shapes: N environments, K of which end their episode in a step,
I keys of `info`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from ding_lite.envs.actions import ActionUnits
from ding_lite.envs.returned import EnvError, check_finite, fit, plain_array
from ding_lite.envs.wrappers import TRUE_REWARD
from ding_lite.utils.key import show_value
from ding_lite.utils.registry import UserError
from ding_lite.utils.seed import derive_seeds
from ding_lite.utils.tree import tree_map

LONG_EPISODE = 10_000  # env steps after which an episode is reported as long
LONGEST_EPISODE = 30_000  # env steps after which an episode is truncated; Atari's own limit is 27,000
IS_LONG = "%s: an episode has not ended after %d env steps; it is cut after %d. Set env.max_episode_steps."
logger = logging.getLogger(__name__)

# Keys of `info` that mean something here. Those of the same names that an environment sets are dropped.
OWN_KEYS = frozenset(
    f"{mask}{key}"
    for mask in ("", "_")
    for key in ("final_obs", "episode_return", "episode_length", "episode_info", "part_ended", TRUE_REWARD)
)


def longest_episode(metadata: Mapping[str, Any]) -> int:
    """Return the env steps after which an environment's episode is cut where somebody waits for its end."""
    return max(metadata.get("max_episode_steps") or 0, LONGEST_EPISODE)


class EpisodeMonitor(VectorWrapper):
    """Adds true episode totals, final observations, ended parts and scaled actions to a SAME_STEP vector environment.

    Args:
        env: the vector environment, in SAME_STEP mode.
        seed: seed for a first `reset()` without a seed; each environment's seed is derived from it.
        restarts: whether `reset` can start new episodes in some of the environments.
        frame_stack: number of frames in one observation, 0 if observations are not frame stacks; kept as an attribute.
        info_keys: I keys, see `env.info_keys`; kept as an attribute.
        clip_rewards: whether `step` returns the signs of rewards; totals always sum the true rewards.
        episodic_life: whether to report lost lives as ended parts of a game.
        episodic_reward: whether to report rewards other than 0 as ended parts of a game.
        act_scale: whether actions -1..1 are mapped to the bounds of a Box.
        limits: L numbers of env steps; environment i truncates its episodes after `limits[i % L]` of them, 0: never.
            The engine has to restart some of its environments then. Empty: the engine's own limit applies.
        bounded: whether every episode ends, because somebody waits for it. Without a time limit,
            `env.metadata["max_episode_steps"]`, an episode is then truncated after `LONGEST_EPISODE` steps, with a
            warning on the way; with one, after as many steps if they are more, see `longest_episode`.
        name: the environment's name in messages.

    Raises:
        EnvError: by `reset` and `step`, if observations do not fit their space, or numbers are not finite.
    """

    def __init__(
        self,
        env: VectorEnv,
        seed: int,
        *,
        restarts: bool = True,
        frame_stack: int = 0,
        info_keys: Sequence[str] = (),
        clip_rewards: bool = False,
        episodic_life: bool = False,
        episodic_reward: bool = False,
        act_scale: bool = True,
        limits: Sequence[int] = (),
        bounded: bool = False,
        name: str = "",
    ) -> None:
        super().__init__(env)
        self._units = ActionUnits(env.single_action_space, act_scale)
        same = self._units.same and isinstance(env.single_action_space, Discrete | MultiDiscrete)
        self._index_type = env.single_action_space.dtype if same else None  # of numbers that need no conversion
        self.single_action_space = self._units.space
        if self.single_action_space is not env.single_action_space:
            self.action_space = batch_space(self.single_action_space, env.num_envs)
        self.frame_stack, self.info_keys = frame_stack, info_keys
        self._restarts = restarts
        self._name, self._plain = f"Environment '{name}'", plain_array(env.single_observation_space)
        self._clip_rewards = clip_rewards
        self._episodic_life, self._episodic_reward = episodic_life, episodic_reward
        self._limit_N = np.resize(limits, env.num_envs) if limits else None
        self._longest = longest_episode(env.metadata)
        self._warns = bounded and not env.metadata.get("max_episode_steps")
        if bounded:
            limit_N = np.resize(limits or 0, env.num_envs)
            self._limit_N = np.where(limit_N > 0, limit_N, self._longest)
        self._first_seed: int | None = seed
        self._return_N = np.zeros(env.num_envs, np.float64)
        self._length_N = np.zeros(env.num_envs, np.int64)
        self._lives_N = np.zeros(env.num_envs, np.int64)
        # what `RestorableVectorEnv` saves
        self._journal: deque[Any] | None = None  # the actions `[N, ...]` of the steps since the longest episode began
        self._obs: Any = None
        self._episode_N = np.full(env.num_envs, -1, np.int64)
        self._clock = 0  # steps of this process

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in every environment, or only where `options["reset_mask"]`, bool `[N]`, is True.

        Args:
            seed: one seed per environment, or one number from which these are derived. None: each environment starts
                the next episode of its current seed; the first time, of the constructor's seed.
            options: passed to the environments.
        """
        seed, self._first_seed = self._first_seed if seed is None else seed, None
        if isinstance(seed, int | np.integer):
            seed = derive_seeds(int(seed), n=self.num_envs)
        mask_N = (options or {}).get("reset_mask", np.full(self.num_envs, True))
        obs, info = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]  # gymnasium takes lists
        self._return_N[mask_N] = 0
        self._length_N[mask_N] = 0
        if self._episodic_life:
            self._lives_N[mask_N] = info["lives"][mask_N]
        self._obs = self._fit(obs, "reset returned obs", self.num_envs)
        return self._obs, info

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step in every environment; see the contract in `vector_env`."""
        if self._journal is not None:
            self._journal.append(tree_map(np.array, actions))
        self._clock += 1
        actions = self._units.to_env(actions) if self._index_type is None else actions.astype(self._index_type)
        obs, reward_N, terminated_N, truncated_N, raw_info = self.env.step(actions)
        obs = self._fit(obs, "step returned obs", self.num_envs)
        info = {key: value for key, value in raw_info.items() if key not in OWN_KEYS}
        info[TRUE_REWARD] = raw_info.get(TRUE_REWARD, reward_N)  # only `env.wrappers` make a difference
        self._return_N += info[TRUE_REWARD]
        if not is_finite(self._return_N):  # wrappers and signs may hide that a reward is infinite
            check_finite(self._return_N, f"{self._name}: step returned rewards")
        self._length_N += 1
        info["episode_return"], info["episode_length"] = self._return_N.copy(), self._length_N.copy()
        ended_N = terminated_N | truncated_N
        if np.count_nonzero(ended_N):  # a tenth of the time of `any`
            index_K = np.flatnonzero(ended_N)
            info["final_obs"] = self._gather(raw_info["final_obs"], index_K)
            if self.info_keys:
                info["episode_info"] = self._read_numbers(raw_info.get("final_info", {}), index_K)
            self._return_N[ended_N] = 0
            self._length_N[ended_N] = 0
        if self._episodic_life or self._episodic_reward:
            part_N = (reward_N != 0) & self._episodic_reward
            if self._episodic_life:
                part_N |= info["lives"] < self._lives_N
                self._lives_N = info["lives"].copy()
            info["part_ended"] = part_N & ~ended_N  # after a game's end, `lives` is the next game's
        reward_N = (np.sign(reward_N) if self._clip_rewards else reward_N).astype(np.float32)
        if not is_finite(reward_N):  # also true of values that float32 cannot hold
            check_finite(reward_N, f"{self._name}: step returned rewards")
        if self._limit_N is not None:
            late_N = self._find_late(info["episode_length"], self._limit_N) & ~ended_N
            if np.count_nonzero(late_N):
                obs, truncated_N = self._truncate(late_N, ended_N, obs, info), truncated_N | late_N
        self._obs = obs
        if self._journal is not None and "final_obs" in info:
            self._episode_N += terminated_N | truncated_N
            # Actions that are older than every running episode go; the newest ones stay, as they show the form.
            for _ in range(len(self._journal) - max(int(self._length_N.max()), 1)):
                self._journal.popleft()
        return obs, reward_N, terminated_N, truncated_N, info

    def _fit(self, obs: Any, what: str, number: int) -> Any:
        """Return a number of observations in the type of their space, see `fit`; those that fit only get a quick look.

        `what` names them in messages.
        """
        plain = type(obs) is np.ndarray and (obs.dtype, obs.shape[1:]) == self._plain and obs.shape[:1] == (number,)
        if plain and (obs.dtype.kind != "f" or is_finite(obs)):
            return obs
        return fit(obs, self.single_observation_space, f"{self._name}: {what}", (number,))

    def _find_late(self, length_N: np.ndarray, limit_N: np.ndarray) -> np.ndarray:
        """Return which episodes have reached their limit, `[N]`; warn about those that have no limit of their own."""
        if self._warns and (longest := int(length_N.max())) % LONG_EPISODE == 0:
            logger.warning(IS_LONG, self._name, longest, self._longest)
        late_N: np.ndarray = (limit_N > 0) & (length_N >= limit_N)
        return late_N

    def _truncate(self, late_N: np.ndarray, ended_N: np.ndarray, obs: Any, info: dict[str, Any]) -> Any:
        """Add the end of episodes that have reached their limit to `info`; return the observations of the next ones.

        Args:
            late_N: where, bool `[N]`.
            ended_N: where an episode has ended in this step, which `info` says already, bool `[N]`.
            obs: the observations after the step, `[N, ...]`.
            info: the step's.
        """
        index_K, last = np.flatnonzero(ended_N | late_N), tree_map(np.array, obs)
        number_NI = np.full((self.num_envs, len(self.info_keys)), np.nan)
        if ended_N.any():
            tree_map(lambda leaf, final: leaf.__setitem__(ended_N, final), last, info["final_obs"])
            number_NI[ended_N] = info.get("episode_info", np.nan)
        info["final_obs"] = tree_map(lambda leaf: leaf[index_K], last)
        if self.info_keys:
            info["episode_info"] = number_NI[index_K]
        if "part_ended" in info:
            info["part_ended"] &= ~late_N
        if self._restarts:
            return EpisodeMonitor.reset(self, options={"reset_mask": late_N})[0]
        # An engine that cannot restart some of its environments plays on; only the totals start anew.
        self._return_N[late_N] = 0
        self._length_N[late_N] = 0
        return obs

    def truncate_all(self) -> None:
        """Truncate all running episodes at the next step, and every one that begins then."""
        self._limit_N = np.ones(self.num_envs, np.int64)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of the environments: to one value, or to a list with a value for each, as in gymnasium.

        Raises:
            UserError: the environments have no such attribute, the list has another length, or the engine cannot set
                any.
        """
        if not hasattr(self.env, "set_attr"):
            raise UserError(
                f"set_attr: the engine {type(self.env).__name__} has no method set_attr(name, values): set "
                "env_manager.type to 'base' or 'subprocess'."
            )
        if isinstance(values, list | tuple) and len(values) != self.num_envs:
            raise UserError(f"set_attr: expected {self.num_envs} values, one for each environment, got {len(values)}.")
        self.env.set_attr(name, values)

    def _read_numbers(self, final_info: dict[str, Any], index_K: np.ndarray) -> np.ndarray:
        """Return the values of `info_keys`, `[K, I]`, from the last infos of the environments `index_K`."""
        number_KI = np.full((len(index_K), len(self.info_keys)), np.nan)
        for i, key in enumerate(self.info_keys):
            if key not in final_info:
                continue
            if not isinstance(final_info[key], np.ndarray):
                found = type(final_info[key]).__name__
                raise EnvError(f"env.info_keys: info['{key}'] is a {found}, expected a number.")
            known_K = final_info.get(f"_{key}", np.ones(self.num_envs, np.bool_))[index_K]
            values = final_info[key][index_K[known_K]]
            try:
                number_KI[known_K, i] = [float(value) for value in values]
            except (TypeError, ValueError, OverflowError) as error:
                found = show_value(values[0])
                raise EnvError(f"env.info_keys: info['{key}'] is {found}, expected a number, as float64.") from error
        return number_KI

    def _gather(self, final_obs: np.ndarray, index_K: np.ndarray) -> Any:
        """Return the final observations of the environments `index_K` as one batch `[K, ...]` in new memory."""
        space, rows = self.single_observation_space, final_obs[index_K]
        if final_obs.dtype == object:
            rows = concatenate(space, rows, create_empty_array(space, n=len(rows), fn=np.empty))  # type: ignore[arg-type]
        return self._fit(rows, "step returned obs, the last ones of episodes,", len(index_K))


def is_finite(numbers: np.ndarray) -> bool:
    """Return whether all floats of an array are finite, or False if the sum of their squares is too large to tell."""
    flat = numbers if numbers.ndim == 1 else numbers.ravel("K")
    return isfinite(flat.dot(flat))

"""Evaluates the policy on whole episodes. Rank 0 plays them, and every rank gets the result.

Shapes: N environments, E episodes, I keys of `env.info_keys`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv

from ding_lite.envs.restorable import same_rows
from ding_lite.envs.wrappers import TRUE_REWARD
from ding_lite.utils.checkpoint.file import storable, to_arrays, to_tensors
from ding_lite.utils.ranks.collectives import broadcast_object_list
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.seed import derive_seeds, random_state, set_random_state
from ding_lite.utils.tree import tree_map

if TYPE_CHECKING:
    from ding_lite.policy import Policy

PROGRESS_PERIOD = 10.0  # seconds between two calls of `on_progress`


class Episodes(NamedTuple):
    """Returns (sums of unclipped rewards), lengths in env steps, and the values of each of `env.info_keys`."""

    returns: list[float]
    lengths: list[int]
    infos: dict[str, list[float]]


class Evaluator:
    """Plays `n_episode` episodes every `eval_freq` learner iterations.

    Each environment plays the same number of episodes, so that short episodes are not overrepresented. Every evaluation
    has its own seeds, which are the same in every run of a config.

    Args:
        env: vector environment of N environments, whose episodes are `bounded`, see `EpisodeMonitor`; None on ranks
            other than 0.
        policy: the policy to evaluate.
        n_episode: episodes of one evaluation, a multiple of N.
        eval_freq: learner iterations between two evaluations.
        stop_value: mean return that ends training; None: no return ends it.
        seed: the config's seed, from which those of the environments are derived in each evaluation.
        interrupt: returns whether to stop early; it is asked before every step.
        on_progress: called every `PROGRESS_PERIOD` seconds of an evaluation, with the number of episodes that have
            ended, the number of steps that each environment has played, and whether nothing has happened since the
            call before: no episode has ended, and the observations are the same.
        eval_after: learner iterations before the first evaluation.
        n_confirm: further episodes of an evaluation whose mean return reaches `stop_value`, a multiple of N; the mean
            of all must reach it.

    Attributes:
        eval_count: completed evaluations.
        last_iter: learner iteration of the last evaluation, -1 before the first.
        best_return: the largest mean return so far.
    """

    def __init__(
        self,
        env: VectorEnv | None,
        policy: Policy,
        n_episode: int,
        eval_freq: int,
        stop_value: float | None,
        seed: int,
        interrupt: Callable[[], bool] = lambda: False,
        on_progress: Callable[[int, int, bool], None] | None = None,
        eval_after: int = 0,
        n_confirm: int = 0,
    ) -> None:
        self._env, self._policy, self._interrupt, self._on_progress = env, policy, interrupt, on_progress
        self._n_episode, self._eval_freq, self._stop_value, self._seed = n_episode, eval_freq, stop_value, seed
        self._after, self._n_confirm = eval_after, n_confirm
        self.eval_count, self.last_iter, self.best_return = 0, -1, -np.inf
        self._attributes: dict[str, Any] = {}  # what `set_attr` has set

    def should_eval(self, train_iter: int) -> bool:
        """Return whether an evaluation is due.

        That is after `eval_after` iterations for the first time, and after `eval_freq` iterations since the last one.

        Args:
            train_iter: learner iterations so far.
        """
        if train_iter < self._after:
            return False
        return self.last_iter < 0 or train_iter - self.last_iter >= self._eval_freq

    def eval(self, train_iter: int) -> tuple[bool, dict[str, Any]]:
        """Evaluate the policy. Collective: all ranks must call it.

        Args:
            train_iter: learner iterations so far.

        Returns:
            Whether the mean return reached `stop_value`, and a dict with `return_mean`, `return_std`, `return_min`,
            `return_max`, `length_mean` (env steps), `returns` (a list with one return per episode), `best` (whether
            the mean return is larger than in all earlier evaluations), `return_best` (the largest mean so far) and
            `info/KEY` (the mean over the episodes that reported it) for each key of `env.info_keys`. If
            the evaluation was interrupted, the dict is empty, the evaluation is not counted, and the random states are
            those before it.
        """
        message: list[Any] = [None]
        if self._env is not None:
            state, played = random_state(), Episodes([], [], {key: [] for key in getattr(self._env, "info_keys", ())})
            with self._policy.evaluating():
                whole = self._play(played, self._n_episode, "evaluate")
                if whole and self._n_confirm and self._reaches_goal(played.returns):
                    whole = self._play(played, self._n_confirm, "confirm")
            if whole:
                message = [played]
            else:
                set_random_state(state)
        broadcast_object_list(message)
        if message[0] is None:
            return False, {}
        returns, lengths, infos = message[0]
        self.last_iter, self.eval_count = train_iter, self.eval_count + 1
        mean = float(np.mean(returns))
        info = {"return_mean": mean, "return_std": float(np.std(returns)), "length_mean": float(np.mean(lengths))}
        info |= {"return_min": min(returns), "return_max": max(returns), "returns": returns}
        info["best"] = mean > self.best_return
        self.best_return = info["return_best"] = max(self.best_return, mean)
        for key, values in infos.items():
            if known := [value for value in values if not math.isnan(value)]:
                info[f"info/{key}"] = float(np.mean(known))
        return self._reaches_goal(returns), info

    def _reaches_goal(self, returns: list[float]) -> bool:
        return self._stop_value is not None and float(np.mean(returns)) >= self._stop_value

    def _play(self, played: Episodes, number: int, purpose: str) -> bool:
        """Add so many episodes, with seeds for this purpose; return False if that was interrupted."""
        assert self._env is not None
        due_N = np.full(self._env.num_envs, number // self._env.num_envs)
        seeds = derive_seeds(self._seed, purpose, self.eval_count, n=len(due_N))
        obs, _ = self._env.reset(seed=seeds)  # type: ignore[arg-type]  # lists are accepted
        self._policy.reset(explore=False)
        reported, n_step = time.monotonic(), 0
        before: tuple[int, Any] = (-1, None)  # episodes and observations at the last call of `on_progress`
        while due_N.any() and not self._interrupt():
            heartbeat("evaluate")
            if self._on_progress and time.monotonic() - reported >= PROGRESS_PERIOD:
                still = before[0] == len(played.returns) and bool(same_rows(before[1], obs)[due_N > 0].all())
                self._on_progress(len(played.returns), n_step, still)
                reported, before = time.monotonic(), (len(played.returns), tree_map(np.array, obs))
            n_step += 1
            action = self._policy.act(obs, explore=False)["action"]
            obs, _, terminated, truncated, info = self._env.step(tree_map(lambda leaf: leaf.cpu().numpy(), action))
            self._policy.see_reward(info[TRUE_REWARD], explore=False)
            if (ended := np.flatnonzero(terminated | truncated)).size:
                self._policy.reset(ended, explore=False)
                counted = ended[due_N[ended] > 0]
                due_N[counted] -= 1
                played.returns.extend(info["episode_return"][counted].tolist())
                played.lengths.extend(info["episode_length"][counted].tolist())
                for i, values in enumerate(played.infos.values()):
                    values += info["episode_info"][np.isin(ended, counted), i].tolist()
        return not due_N.any()

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of the evaluation's environments, see `SampleCollector.set_attr`; call it on every rank."""
        self._attributes[name] = storable(values)
        if self._env is not None:
            self._env.set_attr(name, self._attributes[name])  # type: ignore[attr-defined]  # see `create_vector_env`

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, the best return and the attributes that were set, which are the same on all ranks."""
        counts = {"eval_count": self.eval_count, "last_iter": self.last_iter, "best_return": float(self.best_return)}
        return counts | {"attributes": to_tensors(self._attributes)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.eval_count, self.last_iter = state["eval_count"], state["last_iter"]
        self.best_return = state["best_return"]
        for name, values in to_arrays(state.get("attributes", {})).items():
            self.set_attr(name, values)

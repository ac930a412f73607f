"""Callbacks, which users attach to a run: they see its figures and parts, may log more figures, and may stop it.

Each pipeline takes `callbacks`. Every rank calls the same methods in the same order, so a callback may use collectives,
such as `allreduce_data`, wherever all ranks do.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ding_lite.utils.ranks.collectives import get_rank


class WatchedRun(Protocol):
    """What a callback may use of a run, which is an `Experiment`.

    Attributes:
        policy: the policy that is trained.
        collector: produces the samples.
        learner: trains the policy; `train_iter` is the number of its iterations so far.
        evaluator: evaluates the policy.
        stop_reason: why the run ended; empty while it runs.
    """

    policy: Any
    collector: Any
    learner: Any
    evaluator: Any
    stop_reason: str

    def counts(self) -> dict[str, int]:
        """Return the counts of the run, summed over all ranks."""

    def log(self, figures: Mapping[str, float]) -> None:
        """Record figures at the current counts, averaged over all ranks. Collective: every rank must call it.

        `figures` are numbers by their names, such as `mine/episode_length`; the names are the same on all ranks.

        Raises:
            UserError: a figure has the name of a count, such as `envstep`.
        """

    def stop(self) -> None:
        """End the run after the learner iterations of this collect. A call by one rank is enough."""


class Callback:
    """Base class of callbacks; every method may be overridden and does nothing here."""

    def on_start(self, run: WatchedRun) -> None:
        """Called when all parts are built, before the first evaluation."""

    def after_collect(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
        """Called after each collect; not in runs that learn offline.

        `figures` are sums over all ranks, see `SampleCollector.collect`: `env_step`, `episode`, `return`, `length`;
        `info/KEY` and `info/KEY/episodes` for each key of `env.info_keys`.
        """

    def after_update(self, run: WatchedRun, output: Mapping[str, Any]) -> None:
        """Called after each learner iteration.

        `output` has this rank's figures as the policy returned them, as tensors. Reading one waits for its device.
        """

    def after_evaluation(self, run: WatchedRun, info: Mapping[str, Any]) -> None:
        """Called after each evaluation.

        `info` has `return_mean`, `return_std`, `return_min`, `return_max`, `return_best`, `length_mean`, `returns` of
        each episode, and `best`, whether it is the best evaluation so far; `info/KEY`, the mean over episodes, for each
        key of `env.info_keys`. All are the same on all ranks.
        """

    def after_log(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
        """Called after figures have been recorded in metrics.jsonl: of training, of an evaluation, or of `run.log`.

        `figures` are numbers by their names. Rates may differ between ranks.
        """

    def after_checkpoint(self, run: WatchedRun, path: str) -> None:
        """Called after each checkpoint has been written.

        `path` is the checkpoint, on the machine of rank 0.
        """

    def on_end(self, run: WatchedRun) -> None:
        """Called after the last evaluation and the last checkpoint, unless an error ended the run."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs: numbers, strings and tensors, the same on all ranks."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""


class CallbackList(tuple[Callback, ...]):
    """The callbacks of a run, whose states are saved together."""

    def state_dict(self) -> dict[str, Any]:
        return {str(number): callback.state_dict() for number, callback in enumerate(self)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for number, callback in enumerate(self):
            if str(number) in state:  # else it was added when the run was resumed
                callback.load_state_dict(state[str(number)])


class League(Callback):
    """Chooses opponents for the environments that collect, anew after each checkpoint, among the run's checkpoints.

    An environment needs an attribute that takes the path of a checkpoint, '' for none yet, and plays the other side
    with `ding_lite.load(path)`, as `dizoo/pettingzoo/envs/connect_four_env.py` does. The checkpoints are kept in the
    run's folder `league`. Evaluations are not changed. Several ranks need `env_manager.type='subprocess'`, because an
    agent acts in one process.

    Args:
        newest: share of the environments whose opponent is the newest checkpoint.
        best: share of those whose opponent is the checkpoint with the best evaluation before it. All others get any
            checkpoint, each with the same probability.
        attribute: name of the environments' attribute.
        seed: seed of the choices.

    Figures: `league/opponents`, the number of checkpoints to choose from.
    """

    def __init__(self, newest: float = 0.5, best: float = 0.2, attribute: str = "opponent", seed: int = 0) -> None:
        self._newest, self._best, self._attribute, self._seed = newest, best, attribute, seed
        self._score = -math.inf  # mean return of the newest evaluation
        self._scores: dict[str, float] = {}  # by path of each checkpoint, in order of time

    def after_evaluation(self, run: WatchedRun, info: Mapping[str, Any]) -> None:
        """Remember the score."""
        self._score = float(info["return_mean"])

    def after_checkpoint(self, run: WatchedRun, path: str) -> None:
        """Keep the checkpoint, and let the environments play against others."""
        if os.path.basename(path) == "ckpt_best.pth.tar":
            return
        folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(path))), "league")
        kept = os.path.join(folder, f"iteration_{run.learner.train_iter}.pth.tar")
        if get_rank() == 0 and not os.path.exists(kept):
            os.makedirs(folder, exist_ok=True)
            shutil.copyfile(path, kept)
        self._scores[kept] = self._score
        run.log({"league/opponents": len(self._scores)})
        rng = np.random.default_rng([self._seed, get_rank(), len(self._scores)])
        run.collector.set_attr(self._attribute, [self._choose(rng) for _ in range(run.collector.num_envs)])

    def _choose(self, rng: np.random.Generator) -> str:
        paths, place = list(self._scores), rng.random()
        if place < self._newest:
            return paths[-1]
        if place < self._newest + self._best:
            return max(paths, key=self._scores.__getitem__)
        return str(rng.choice(paths))

    def state_dict(self) -> dict[str, Any]:
        return {"score": self._score, "scores": dict(self._scores)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._score, self._scores = state["score"], dict(state["scores"])

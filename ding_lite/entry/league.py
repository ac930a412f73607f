"""Self-play: the environments of a run play against earlier policies of the same run."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from ding_lite.entry.callbacks import Callback, WatchedRun
from ding_lite.utils.ranks.ranks import get_rank


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

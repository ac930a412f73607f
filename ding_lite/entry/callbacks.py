"""Callbacks, which users attach to a run: they see its figures and parts, may log more figures, and may stop it.

Each pipeline takes `callbacks`. Every rank calls the same methods in the same order, so a callback may use collectives,
such as `allreduce_data`, wherever all ranks do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


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

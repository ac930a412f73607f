"""The learner: counts iterations, runs the policy's step on each batch, and passes figures and priorities on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from ding_lite.torch_utils.diagnosis import NonFiniteError
from ding_lite.torch_utils.drift import check_ranks
from ding_lite.torch_utils.modes import LearnMode
from ding_lite.torch_utils.running_mean import RunningMeans
from ding_lite.utils.dist.heartbeat import heartbeat
from ding_lite.utils.dist.ranks import get_world_size


class Learner:
    """Trains a policy's `learn_mode`; every rank runs the same number of iterations.

    Args:
        policy: the policy's `learn_mode`.
        log_freq: learner iterations between two records of the figures.
        on_log: called with means of the policy's monitored figures, over all ranks and all iterations since the last
            record; a figure that only some iterations have is averaged over those.
        check_freq: learner iterations between two comparisons of the ranks' parameters and buffers; 0: none.

    Attributes:
        train_iter: learner iterations so far.
    """

    def __init__(
        self,
        policy: LearnMode,
        log_freq: int,
        on_log: Callable[[dict[str, float]], None],
        check_freq: int = 0,
    ) -> None:
        self._policy, self._log_freq, self._on_log = policy, log_freq, on_log
        self._check_freq = check_freq if get_world_size() > 1 else 0
        self._names = list(dict.fromkeys([*policy.monitor_vars(), "skipped_updates"]))  # which may come later
        self._means = RunningMeans()
        self.train_iter = 0

    def train(self, batches: Iterable[dict[str, Any]], update: Callable[[Tensor, Tensor], None] | None = None) -> None:
        """Take one step for each batch; `update(index, priority)` is called with the new priorities.

        Raises:
            NonFiniteError: on every rank, if a loss or gradient of any rank is not finite, and updates are not skipped.
            RankDriftError: on every rank, if their parameters or buffers differ.
        """
        try:
            for batch in batches:
                self._train_batch(batch, update)
            self._policy.finish()
        except NonFiniteError as error:
            error.iteration = self.train_iter + 1 - error.lag
            raise

    def _train_batch(self, batch: dict[str, Any], update: Callable[[Tensor, Tensor], None] | None) -> None:
        heartbeat("learn")
        output = self._policy.forward(batch)
        self.train_iter += 1
        if update is not None and "priority" in output:
            update(batch["index"], output["priority"])
        self._means.add(output, self._names)
        if self.train_iter % self._log_freq == 0:
            self._on_log(self._means.take(self._names))
        if self._check_freq and self.train_iter % self._check_freq == 0:
            check_ranks(self._policy.checksum(), self.train_iter)

    def state_dict(self) -> dict[str, Any]:
        """Return the state that is the same on all ranks."""
        return {"train_iter": self.train_iter}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.train_iter = state["train_iter"]

    def local_state_dict(self) -> dict[str, Any]:
        """Return this rank's state: the sums of figures for the next record."""
        return {"means": self._means.state_dict()}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `local_state_dict` gave."""
        self._means.load_state_dict(state["means"])

"""Trains the policy on batches, counts the learner iterations, and averages the figures for the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.torch_utils.data import Batch, Output
from ding_lite.torch_utils.networks import check_ranks
from ding_lite.torch_utils.nonfinite import NonFiniteError
from ding_lite.torch_utils.running_stat import RunningMeans
from ding_lite.utils.ranks.collectives import get_world_size
from ding_lite.utils.ranks.heartbeat import heartbeat

if TYPE_CHECKING:
    from ding_lite.policy import Policy


class Learner:
    """Takes one step of the policy on each batch. Every rank must train on the same number of batches.

    Args:
        policy: the policy to train.
        log_freq: learner iterations between two records of the figures.
        on_log: called for each record with the means of the policy's figures, over all ranks and over all iterations
            since the last record. A figure that only some iterations return is averaged over these iterations.
        check_freq: learner iterations between two comparisons of the parameters and buffers of all ranks; 0: never.
        on_update: called after each learner iteration with what the policy returned.
        networks: other networks that must be the same on all ranks, such as those of a reward model.

    Attributes:
        train_iter: learner iterations so far.
    """

    def __init__(
        self,
        policy: Policy,
        log_freq: int,
        on_log: Callable[[dict[str, float]], None],
        check_freq: int = 0,
        on_update: Callable[[dict[str, Any]], None] | None = None,
        networks: Sequence[nn.Module] = (),
    ) -> None:
        self._policy, self._log_freq, self._on_log, self._on_update = policy, log_freq, on_log, on_update
        self._check_freq, self._networks = check_freq if get_world_size() > 1 else 0, networks
        self._names = list(dict.fromkeys([*policy.monitor_vars(), "skipped_updates"]))  # the latter may come later
        self._means = RunningMeans()
        self.train_iter = 0

    def train(self, batches: Iterable[Batch], update: Callable[[Tensor, Tensor], None] | None = None) -> None:
        """Take one learner iteration on each batch.

        Args:
            batches: dicts of `[B, ...]` tensors; one is drawn only after the step on the previous one.
            update: called as `update(index, priority)` with the places and new priorities `[B]` of each batch, if the
                policy returns priorities.

        Raises:
            NonFiniteError: a loss or gradient of any rank is not finite, and `policy.learn.on_nonfinite` is 'stop'.
                It is raised on every rank.
            RankDriftError: the parameters or buffers of the ranks differ. It is raised on every rank.
        """
        try:
            for batch in batches:
                heartbeat("learn")
                output = self._policy.learn(batch)
                self.train_iter += 1
                if update is not None and "priority" in output:
                    update(batch["index"], output["priority"])
                self._record(output)
            self._policy.finish()
        except NonFiniteError as error:
            error.iteration = self.train_iter + 1 - error.lag
            raise

    def _record(self, output: Output) -> None:
        self._means.add(output, self._names)
        if self.train_iter % self._log_freq == 0:
            self._on_log(self._means.take(self._names))
        if self._check_freq and self.train_iter % self._check_freq == 0:
            check_ranks(self._policy.checksum(*self._networks), self.train_iter)
        if self._on_update is not None:
            self._on_update(output)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of iterations, which is the same on all ranks."""
        return {"train_iter": self.train_iter}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.train_iter = state["train_iter"]

    def local_state_dict(self) -> dict[str, Any]:
        """Return this rank's sums of the figures for the next record."""
        return {"means": self._means.state_dict()}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        self._means.load_state_dict(state["means"])


def updates_after(learn: EasyDict, env_step: int) -> int:
    """Return the number of learner iterations after a collect in which all ranks together took so many env steps."""
    return int(learn.get("update_per_collect") or learn.get("update_per_step", 1) * env_step)

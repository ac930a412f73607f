"""The learner: counts iterations, runs the policy's step on each batch, and hands figures and priorities on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from ding_lite.torch_utils.drift import check_ranks
from ding_lite.torch_utils.nonfinite import NonFiniteError
from ding_lite.utils.dist.collectives import allreduce_data
from ding_lite.utils.dist.ranks import get_world_size
from ding_lite.utils.dist.watchdog import heartbeat


class Learner:
    """Trains a policy's `learn_mode`; every rank runs the same number of iterations.

    Args:
        policy: the policy's `learn_mode`.
        log_freq: learner iterations between two records of the losses.
        on_log: called with the global means of the policy's monitored values.
        check_freq: learner iterations between two comparisons of the ranks' parameters; 0: none.
    """

    def __init__(
        self,
        policy: SimpleNamespace,
        log_freq: int,
        on_log: Callable[[dict[str, float]], None],
        check_freq: int = 0,
    ) -> None:
        self._policy, self._log_freq, self._on_log = policy, log_freq, on_log
        self._check_freq = check_freq if get_world_size() > 1 else 0
        self.train_iter = 0

    def train(self, batches: Iterable[dict[str, Any]], update: Callable[[Tensor, Tensor], None] | None = None) -> None:
        """Take one step a batch; `update(index, priority)` hears of the new priorities.

        Raises:
            NonFiniteError: on every rank, if a loss or gradient of any rank is not finite, and updates are not skipped.
            RankDriftError: on every rank, if their parameters are not the same any more.
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
        if self.train_iter % self._log_freq == 0:
            values = {key: float(output[key].mean()) for key in self._policy.monitor_vars() if key in output}
            self._on_log(allreduce_data(values, op="mean"))
        if self._check_freq and self.train_iter % self._check_freq == 0:
            check_ranks(self._policy.checksum(), self.train_iter)

    def state_dict(self) -> dict[str, Any]:
        return {"train_iter": self.train_iter}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.train_iter = state["train_iter"]

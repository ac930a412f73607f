"""What policies share that learn from a data set instead of from an environment."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from ding_lite.policy.base import Policy


class OfflinePolicy(Policy):
    """Base of policies that learn from a data set, `policy.collect.data_path`; they play to be evaluated, or to record.

    A batch is a dict of `[B, ...]` tensors on the policy's device, floats of the model's type: `obs, action, reward,
    next_obs, done` and `value_gamma` `[B]`, the discount of the bootstrap. `reward` is summed over `policy.nstep` steps
    where the policy has that key.
    """

    config: ClassVar[dict[str, Any]] = dict(
        offline=True,  # (bool) learned from a data set; told by the policy, not set
        learn=dict(
            train_epoch=100,  # (int) passes over the data set
            learner=dict(
                dataloader=dict(
                    num_workers=1,  # (int) processes per rank that load ahead; 0: none
                ),
            ),
        ),
        collect=dict(
            data_type="",  # (str) 'hdf5', 'npz', 'npy' or 'minari'; empty: as the path's ending says
            data_path="",  # (str) the data set: a file, a directory, or the id of a Minari data set
        ),
    )
    config_without: ClassVar[tuple[str, ...]] = ("collect.n_sample",)
    required_columns: ClassVar[tuple[str, ...]] = ("obs", "action", "reward", "next_obs", "done")

    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Tensor]:
        """Act as in evaluation; a policy that has a way to explore overrides it."""
        return self._forward_eval(obs)

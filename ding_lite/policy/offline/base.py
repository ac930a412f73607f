"""What policies share that learn from a data set instead of from an environment."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from ding_lite.policy.base import Policy
from ding_lite.utils.key import Key


class OfflinePolicy(Policy):
    """Base of policies that learn from a data set, `policy.collect.data_path`; they play to be evaluated, or to record.

    A batch is a dict of `[B, ...]` tensors on the policy's device, floats of the model's type: `obs, action, reward,
    next_obs, done` and `value_gamma` `[B]`, the discount of the bootstrap. `reward` is summed over `policy.nstep` steps
    where the policy has that key.
    """

    config: ClassVar[dict[str, Any]] = dict(
        learn=dict(
            train_epoch=Key(100, "passes over the data set", low=1),
            learner=dict(
                dataloader=dict(
                    num_workers=Key(1, "processes per rank that load ahead; 0: none", low=0, high=4096),
                ),
            ),
        ),
        collect=dict(
            data_type=Key("", "'hdf5', 'npz', 'npy' or 'minari'; empty: as the path's ending says"),
            data_path=Key("", "the data set: a file, a directory, or the id of a Minari data set"),
        ),
    )
    pipeline: ClassVar[str] = "serial_pipeline_offline"
    config_without: ClassVar[tuple[str, ...]] = ("collect.n_sample",)
    required_columns: ClassVar[tuple[str, ...]] = ("obs", "action", "reward", "next_obs", "done")

    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Tensor]:
        """Act as in evaluation; a policy that has a way to explore overrides it."""
        return self._forward_eval(obs)

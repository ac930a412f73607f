"""The mixin of policies whose samples come from a data set instead of an environment."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, ClassVar

from easydict import EasyDict

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ConfigError

# Keys that have a meaning only with a replay buffer; offline policies list them in `config_without`.
REPLAY_KEYS = (
    *("priority", "priority_IS_weight", "random_collect_size"),
    *("learn.update_per_collect", "collect.n_sample", "other.replay_buffer"),
)


class OfflinePolicy:
    """Mixin of policies that learn from the data set `policy.collect.data_path` and play only in evaluations.

    Put it before the algorithm's base class: `class TD3BCPolicy(OfflinePolicy, QACPolicy)`. The algorithm does not
    depend on where its samples come from. A batch is a dict of `[B, ...]` tensors on the policy's device: `obs, action,
    reward, next_obs, done` and `value_gamma`, the discount of the bootstrap. `reward` is summed over `policy.nstep`
    steps, if the policy has that key.
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
    required_columns: ClassVar[tuple[str, ...]] = ("obs", "action", "reward", "next_obs", "done")

    @classmethod
    def check_columns(cls, policy: EasyDict, columns: Container[str]) -> None:
        """Raise `ConfigError` if the policy's config needs more than a data set with these columns contains."""
        if "next_obs" in cls.required_columns and policy.learn.ignore_done and "next_obs" not in columns:
            raise ConfigError(
                "policy.learn.ignore_done=True bootstraps from what follows terminal steps, but the data set "
                f"'{policy.collect.data_path}' has no next_obs that tells: add that column, or set it to False."
            )

"""What a policy declares if its samples come from a data set instead of an environment."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, ClassVar

from easydict import EasyDict

from ding_lite.utils.registry import ConfigError

# Keys that mean something only where samples come from a replay buffer, for `config_without` of offline policies.
REPLAY_KEYS = (
    *("priority", "priority_IS_weight", "random_collect_size"),
    *("learn.update_per_collect", "collect.n_sample", "other.replay_buffer"),
)


class OfflinePolicy:
    """Declaration that a policy learns from the data set `policy.collect.data_path`, and plays only to be evaluated.

    It stands before the algorithm's base class: `class TD3BCPolicy(OfflinePolicy, QACPolicy)`. The algorithm is the
    same wherever its samples come from. A batch is a dict of `[B, ...]` tensors on the policy's device: `obs, action,
    reward, next_obs, done` and `value_gamma`, the discount of the bootstrap. `reward` is summed over `policy.nstep`
    steps, if the policy has that key.
    """

    config: ClassVar[dict[str, Any]] = dict(
        offline=True,  # (bool) learned from a data set; fixed by the policy class
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
    required_columns: ClassVar[tuple[str, ...]] = ("obs", "action", "reward", "next_obs", "done")

    @classmethod
    def check_columns(cls, policy: EasyDict, columns: Container[str]) -> None:
        """Raise `ConfigError` if the policy's config asks for what a data set with these columns cannot give."""
        if "next_obs" in cls.required_columns and policy.learn.ignore_done and "next_obs" not in columns:
            raise ConfigError(
                "policy.learn.ignore_done=True bootstraps from what follows terminal steps, but the data set "
                f"'{policy.collect.data_path}' has no next_obs that tells: add that column, or set it to False."
            )

"""The mixin for policies that learn from a data set instead of an environment."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, ClassVar, Literal

from easydict import EasyDict

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ConfigError

# Keys that only make sense with a replay buffer; offline policies list them in `config_without`.
REPLAY_KEYS = (
    *("priority", "priority_IS_weight", "random_collect_size"),
    *("learn.update_per_collect", "collect.n_sample", "other.replay_buffer"),
)


class OfflinePolicy:
    """Mixin for policies that learn from the data set `policy.collect.data_path` and act only in evaluations.

    Put it before the algorithm's base class: `class TD3BCPolicy(OfflinePolicy, TD3Policy)`. The algorithm itself does
    not depend on the source of its samples. A batch is a dict of `[B, ...]` tensors on the policy's device: `obs`,
    `action`, `reward`, `next_obs`, `done` and `value_gamma`, the discount of the bootstrap. If the policy has the key
    `nstep`, `reward` is the discounted sum over that many steps.

    Attributes:
        required_columns: columns without which a data set is refused.
    """

    config: ClassVar[dict[str, Any]] = dict(
        learn=dict(
            train_epoch=Key(100, "passes over the data set", low=1),
            learner=dict(
                dataloader=dict(
                    num_workers=Key(1, "worker processes per rank that load batches; 0: none", low=0, high=4096),
                ),
            ),
        ),
        collect=dict(
            data_type=Key("", "'hdf5', 'npz', 'npy' or 'minari'; empty: determined by the path's ending"),
            data_path=Key("", "the data set: a file, a directory or a Minari id"),
            action_units=Key(
                "",
                "units of the data set's actions: 'env', the environment's own; 'policy', those of env.act_scale and "
                "choices from 0; empty: as the data set says",
                choices=("", "env", "policy"),
            ),
        ),
    )
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "dataset"
    required_columns: ClassVar[tuple[str, ...]] = ("obs", "action", "reward", "next_obs", "done")

    @classmethod
    def check_columns(cls, policy: EasyDict, columns: Container[str]) -> None:
        """Check that a data set has the columns that the config of the policy needs.

        Args:
            policy: the compiled `cfg.policy`.
            columns: names of the data set's columns.

        Raises:
            ConfigError: a column is missing.
        """
        if "next_obs" in cls.required_columns and policy.learn.ignore_done and "next_obs" not in columns:
            raise ConfigError(
                "policy.learn.ignore_done=True bootstraps from the observation after a terminal step, but the data set "
                f"'{policy.collect.data_path}' has no column next_obs: add it, or set ignore_done=False."
            )

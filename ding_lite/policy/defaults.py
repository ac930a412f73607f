"""The default config of a policy class, merged with those of its bases, and checks of the keys of all policies."""

from __future__ import annotations

from easydict import EasyDict

from ding_lite.torch_utils.data_parallel import check_data_parallel
from ding_lite.torch_utils.optimizer_keys import check_optimizer
from ding_lite.utils.key import declared_keys, default_values


def merge_defaults(cls: type) -> EasyDict:
    """Return the default values of a class: its `config` over those of its bases, without `config_without`."""
    return EasyDict(default_values(declared_keys(cls)))


def check_common_keys(policy: EasyDict, defaults: EasyDict) -> None:
    """Check the keys of `cfg.policy` that every policy has.

    Args:
        policy: the compiled `cfg.policy`.
        defaults: the default values of the policy's class.

    Raises:
        ConfigError: a value is unknown, out of range, or contradicts another one.
    """
    check_data_parallel(policy, defaults.ddp)
    check_optimizer("policy.learn", policy.learn, defaults.learn)

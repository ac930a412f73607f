"""The defaults of a policy class, merged over its bases, and checks of the keys that all policies have."""

from __future__ import annotations

from easydict import EasyDict

from ding_lite.torch_utils.data_parallel import check_data_parallel
from ding_lite.utils.key import declared_keys, default_values


def merge_defaults(cls: type) -> EasyDict:
    """Return the `config` of a class over those of its bases, less the keys that `config_without` names."""
    return EasyDict(default_values(declared_keys(cls)))


def check_common_keys(policy: EasyDict, defaults: EasyDict) -> None:
    """Check the keys of `cfg.policy` that every policy has.

    Raises:
        ConfigError: if a value is unknown, out of range, or contradicts another one.
    """
    check_data_parallel(policy, defaults.ddp)

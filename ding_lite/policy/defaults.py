"""The default config of a policy class, merged with those of its bases, and checks of the keys of all policies."""

from __future__ import annotations

from easydict import EasyDict

from ding_lite.torch_utils.data_parallel import check_data_parallel
from ding_lite.torch_utils.optimizer import check_optimizer
from ding_lite.utils.key import declared_keys, default_values
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY


def merge_defaults(cls: type) -> EasyDict:
    """Return the default values of a class: its `config` over those of its bases, without `config_without`."""
    return EasyDict(default_values(declared_keys(cls)))


def check_common_keys(cfg: EasyDict, defaults: EasyDict) -> None:
    """Check the keys of `cfg.policy` that every policy has, and those of a reward model's optimizer.

    Args:
        cfg: the whole compiled config.
        defaults: the default values of the policy's class.

    Raises:
        ConfigError: a value is unknown, out of range, or contradicts another one.
    """
    check_data_parallel(cfg.policy, defaults.ddp)
    check_optimizer("policy.learn", cfg.policy.learn, defaults.learn)
    if "optimizer" in cfg.get("reward_model", {}):
        own = merge_defaults(REWARD_MODEL_REGISTRY.find(cfg.reward_model.type))
        check_optimizer("reward_model", cfg.reward_model, own)

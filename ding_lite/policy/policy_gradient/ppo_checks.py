"""Checks of PPO's keys against each other."""

from __future__ import annotations

from easydict import EasyDict

from ding_lite.utils.registry import ConfigError
from ding_lite.utils.schedule import Scheduled

PATH = "policy.learn.pretrained_model_path"


def check_kl_keys(cfg: EasyDict) -> None:
    """Check `target_kl`, `kl_beta`, `pretrained_model_path` and related keys.

    Args:
        cfg: a compiled config.

    Raises:
        ConfigError: they contradict each other or another key.
    """
    policy, learn = cfg.policy, cfg.policy.learn
    uses_target = learn.get("kl_early_stop", False) or learn.get("kl_adaptive", False)
    if (learn.get("target_kl") is not None) != uses_target:
        raise ConfigError("policy.learn.target_kl belongs to kl_early_stop=True or kl_adaptive=True: set both.")
    scheduled = isinstance(learn.kl_beta, Scheduled)
    if learn.get("kl_adaptive") and scheduled:
        raise ConfigError(
            "policy.learn.kl_adaptive=True contradicts the schedule of policy.learn.kl_beta: set only one."
        )
    if learn.get("kl_adaptive") and learn.kl_beta <= 0:
        raise ConfigError("policy.learn.kl_adaptive=True adapts kl_beta: set policy.learn.kl_beta above 0.")
    if learn.pretrained_model_path is None:
        return
    if learn.kl_beta <= 0 and not scheduled:  # a schedule may begin or end with 0
        raise ConfigError(f"{PATH} has no effect without a weight: set policy.learn.kl_beta above 0.")
    if learn.get("kl_adaptive"):
        raise ConfigError(
            f"{PATH} contradicts kl_adaptive=True, which adapts kl_beta to KL(pi_old || pi_new): drop one."
        )
    if policy.model.get("lstm_type"):
        raise ConfigError(f"{PATH} is not possible with policy.model.lstm_type: leave one out.")
    if cfg.env.norm_obs.use_norm:
        raise ConfigError(
            f"{PATH} is not possible with env.norm_obs=True: the pretrained policy would see observations that are "
            "normalised by other statistics than those it learned with. Leave one out."
        )

"""Checks of PPO's keys against each other."""

from __future__ import annotations

from easydict import EasyDict

from ding_lite.utils.registry import ConfigError
from ding_lite.utils.schedule import Scheduled

# Keys for schedules: each with the name of its final share, and the key that it scales.
SCHEDULERS = (("lr_scheduler", "min_lr_lambda", "learning_rate"), ("clip_scheduler", "min_clip_lambda", "clip_ratio"))
PATH = "policy.learn.pretrained_model_path"


def check_schedulers(policy: EasyDict) -> None:
    """Check `lr_scheduler` and `clip_scheduler`.

    Args:
        policy: the section `policy` of a compiled config.

    Raises:
        ConfigError: one is malformed, or contradicts another key.
    """
    learn = policy.learn
    for key, lowest, target in SCHEDULERS:
        schedule = learn[key]
        if schedule is None:
            continue
        if isinstance(learn[target], Scheduled):
            raise ConfigError(f"policy.learn.{key} contradicts the schedule of policy.learn.{target}: set only one.")
        numbers = all(isinstance(value, (int, float)) for value in schedule.values())
        if set(schedule) != {"epoch_num", lowest} or not numbers or schedule["epoch_num"] <= 0:
            raise ConfigError(
                f"policy.learn.{key} must be dict(epoch_num=collects, {lowest}=final share), got {dict(schedule)}."
            )
    if policy.compile and learn.clip_scheduler is not None:
        raise ConfigError(
            "policy.learn.clip_scheduler changes a number in the loss, but policy.compile=True treats these as "
            "constants: set one of them to None or False."
        )


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

"""DI-engine's configs of DreamerV3, in which the world model is a section beside the policy."""

from __future__ import annotations

from typing import Any

from ding_lite.config.schema import BUFFER
from ding_lite.di_engine.keys import expand
from ding_lite.utils.key import get_key, pop_key, set_key, show
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import dotted_items

WORLD_MODEL = "world_model"
# Keys of DI-engine and ours.
MOVED = {
    "policy.learn.batch_length": ["policy.unroll_len"],
    "policy.learn.discount": ["policy.discount_factor"],
    "policy.learn.grad_clip": ["policy.learn.grad_clip_value"],
    "policy.learn.learning_rate": ["policy.learn.learning_rate_actor", "policy.learn.learning_rate_critic"],
    "policy.learn.slow_target_fraction": ["policy.learn.target_theta"],
    "world_model.model.kl_free": ["policy.learn.free_nats"],
    "world_model.model.kl_lscale": ["policy.learn.rep_scale"],
    "world_model.model.kl_rscale": ["policy.learn.dyn_scale"],
    "world_model.model.model_lr": ["policy.learn.learning_rate_world"],
} | {
    f"world_model.model.{key}": [f"policy.model.{key}"]
    for key in (
        *("dyn_deter", "dyn_hidden", "dyn_stoch", "dyn_discrete", "unimix_ratio", "units", "cnn_depth"),
        "encoder_hidden_size_list",
    )
}
# The environment tells these, or they count what is counted otherwise here.
DROPPED = expand(
    "policy.collect.{n_sample,unroll_len,action_size} policy.model.actor_dist world_model.{type,import_names} "
    "world_model.{cuda,pretrain} world_model.model.{state_size,obs_type,action_size,action_type,reward_size,batch_size}"
)
# Options that are always on, or that do not exist here.
FIXED: dict[str, Any] = {
    "policy.collect.collect_dyn_sample": True,
    "policy.learn.imag_sample": True,
    "policy.learn.reward_EMA": True,
    "policy.learn.slow_value_target": True,
    "policy.learn.slow_target_update": 1,
    "policy.learn.actor_state_entropy": 0.0,
    "policy.learn.value_decay": 0.0,
}
IN_STEPS = ("policy.random_collect_size", f"{BUFFER}.replay_buffer_size")  # counted in sequences here


def is_dreamer(config: dict[str, Any]) -> bool:
    """Return whether nested keys, or a `create_config`, have DreamerV3 with a section for its world model."""
    return isinstance(config.get(WORLD_MODEL), dict) and get_key(config, "policy.type") == "dreamer"


def translate_dreamer(user: dict[str, Any], notes: list[str]) -> None:
    """Move the keys of the section `world_model`, and of DI-engine's policy, to those of the policy here.

    Sizes in env steps become sequences. `world_model.train_freq` env steps for each iteration become
    `policy.learn.update_per_step`.
    """
    if not is_dreamer(user):
        return
    for path, expected in FIXED.items():
        if (value := pop_key(user, path)) not in (None, expected):
            raise ConfigError(f"{path}: expected {expected!r}, got {show(value)}: DreamerV3 here has no other choice.")
    for path in DROPPED:
        pop_key(user, path)
    for old, news in MOVED.items():
        if (value := pop_key(user, old)) is not None:
            for new in news:
                set_key(user, new, value)
    _change_units(user)
    if get_key(user, f"{BUFFER}.type") == "sequence":
        set_key(user, f"{BUFFER}.type", "sequence_ends")
    left = dotted_items(user.pop(WORLD_MODEL), f"{WORLD_MODEL}.")
    if unknown := next((path for path, value in left if value != {}), ""):
        raise ConfigError(f"{unknown} has no counterpart here: leave it out.")
    notes.append(
        f"The section {WORLD_MODEL} sets keys of policy.model and policy.learn here, see docs/from_di_engine.md; "
        f"{' and '.join(IN_STEPS)} count sequences."
    )


def _change_units(user: dict[str, Any]) -> None:
    if (frequency := pop_key(user, f"{WORLD_MODEL}.train_freq")) is not None:
        set_key(user, "policy.learn.update_per_step", 1.0 / frequency)
    length = get_key(user, "policy.unroll_len", 64)
    for path in IN_STEPS:
        if (steps := get_key(user, path)) is not None:
            set_key(user, path, max(1, steps // length))

"""Checks that all ranks run the same config."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ding_lite.utils.ranks.collectives import all_gather_object
from ding_lite.utils.ranks.peers import describe_values
from ding_lite.utils.ranks.ranks import get_world_size
from ding_lite.utils.registry import UserError
from ding_lite.utils.tree import dotted_items

SHOWN_KEYS, LONGEST_VALUE = 4, 60  # in a message: keys, characters of a value
UNSET = "unset"
# Rank 0 alone uses the directory and decides whether the run continues in it; notes are messages; machines may have
# different numbers of cores. The environment gives the shapes to ranks whose config does not, and checks all others.
MAY_DIFFER = {
    *("exp_name", "policy.learn.resume_training", "notes", "env.manager.num_threads", "policy.num_threads"),
    *("policy.model", "policy.model.obs_shape", "policy.model.action_shape"),  # the first is a key if it is empty
}


def check_same_config(cfg: Mapping[str, Any], **limits: Any) -> None:
    """Check that the compiled configs and the limits of all ranks are equal.

    Collective: all ranks must call it. The ranks exchange a hash, and the whole config only if the hashes differ.

    Args:
        cfg: the compiled config of this rank.
        **limits: the limits of the run, such as `max_env_step`.

    Raises:
        UserError: they differ. The message, the same on all ranks, lists the dotted keys and the values of each rank.
    """
    if get_world_size() == 1:
        return
    values = {key: repr(value) for key, value in dotted_items({**cfg, **limits}) if key not in MAY_DIFFER}
    digest = hashlib.sha256(repr(sorted(values.items())).encode()).digest()
    if len(set(all_gather_object(digest))) > 1:
        raise UserError(_describe(all_gather_object(values)))


def _describe(configs: list[dict[str, str]]) -> str:
    """Return one line with the keys that differ and each rank's values; keys that explain other differences first."""
    keys = set().union(*configs)
    differing = [key for key in keys if len({config.get(key) for config in configs}) > 1]
    one_sided = {key for key in differing if not all(key in config for config in configs)}
    differing.sort(key=lambda key: (key in one_sided, not key.endswith(".type"), key.count("."), key))
    texts = [
        f"{key} is {describe_values([_shorten(config.get(key, UNSET)) for config in configs])}" for key in differing
    ]
    more = f"; {len(texts) - SHOWN_KEYS} more" if len(texts) > SHOWN_KEYS else ""
    return (
        f"Ranks disagree on the config: {'; '.join(texts[:SHOWN_KEYS])}{more}. Start every rank with the same config "
        "file and options."
    )


def _shorten(value: str) -> str:
    """Return a long value without its middle, because paths differ at their ends."""
    half = (LONGEST_VALUE - 3) // 2
    return value if len(value) <= LONGEST_VALUE else f"{value[:half]}...{value[-half:]}"

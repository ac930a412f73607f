"""Checks that a policy and a checkpoint, or a way to train, agree on normalised observations and rewards."""

from __future__ import annotations

from typing import Any

from easydict import EasyDict

from ding_lite.policy import Policy
from ding_lite.utils.checkpoint.file import CheckpointError
from ding_lite.utils.registry import ConfigError


def normalizes_obs(policy: Policy) -> bool:
    """Return whether a policy normalises observations."""
    return policy.normalizer.obs is not None


def refuse_normalization(cfg: EasyDict, what: str, reason: str) -> None:
    """Raise `ConfigError` if the config normalises observations or rewards.

    Args:
        cfg: the compiled config.
        what: what cannot do this.
        reason: why not.
    """
    for key in ("norm_obs", "norm_reward"):
        if cfg.env[key].use_norm:
            raise ConfigError(f"env.{key}=True does not work with {what}: {reason}. Set env.{key}=False.")


def check_statistics(policy: Policy, state: dict[str, Any], name: str) -> None:
    """Check that a policy and a checkpoint both normalise observations, or neither does.

    Args:
        policy: the policy.
        state: the checkpoint's `policy`.
        name: the checkpoint's name in messages.

    Raises:
        CheckpointError: only one of the two does.
    """
    wanted = normalizes_obs(policy)
    found = "obs.mean" in state.get("normalizer", {})
    if wanted and not found:
        raise CheckpointError(
            f"Checkpoint '{name}' has no statistics of observations, which env.norm_obs=True needs: its policy learned "
            "from unchanged observations. Set env.norm_obs=False."
        )
    if found and not wanted:
        raise CheckpointError(
            f"The policy of checkpoint '{name}' learned from normalised observations: set env.norm_obs=True."
        )

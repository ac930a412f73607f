"""The pretrained policy that PPO may stay close to."""

from __future__ import annotations

import copy

from torch import nn

from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.registry import ConfigError


def load_pretrained(model: nn.Module, path: str) -> nn.Module:
    """Return a copy of a model, with the parameters of a checkpoint and without gradients.

    Args:
        model: a model with the layers of the one in the checkpoint.
        path: a checkpoint of a run.

    Raises:
        CheckpointError: the file cannot be read.
        ConfigError: its model has other layers, or learned from normalised observations.
    """
    network, state = copy.deepcopy(model).requires_grad_(False), load_checkpoint(path)
    try:
        network.load_state_dict(state["policy"]["model"])
    except (KeyError, TypeError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ConfigError(
            f"policy.learn.pretrained_model_path: '{path}' does not have this policy's model: {reason}"
        ) from error
    if "obs.mean" in state["policy"].get("normalizer", {}):
        raise ConfigError(
            f"policy.learn.pretrained_model_path: the policy of '{path}' learned from normalised observations, which "
            "this policy does not give it: choose the checkpoint of a run with env.norm_obs=False."
        )
    return network

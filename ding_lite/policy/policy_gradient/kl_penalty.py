"""The checks of PPO's keys about KL divergences, and the pretrained policy that it may stay close to."""

from __future__ import annotations

import copy

from easydict import EasyDict
from torch import nn

from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.registry import ConfigError

PATH = "policy.learn.pretrained_model_path"


def check_kl_keys(policy: EasyDict) -> None:
    """Check `target_kl`, `kl_beta`, `pretrained_model_path` and what belongs to them.

    Args:
        policy: the section `policy` of a compiled config.

    Raises:
        ConfigError: they contradict each other.
    """
    learn = policy.learn
    uses_target = learn.get("kl_early_stop", False) or learn.get("kl_adaptive", False)
    if (learn.get("target_kl") is not None) != uses_target:
        raise ConfigError("policy.learn.target_kl belongs to kl_early_stop=True or kl_adaptive=True: set both.")
    if learn.get("kl_adaptive") and learn.kl_beta <= 0:
        raise ConfigError("policy.learn.kl_adaptive=True adapts kl_beta: set policy.learn.kl_beta above 0.")
    if learn.pretrained_model_path is None:
        return
    if learn.kl_beta <= 0:
        raise ConfigError(f"{PATH} has no effect without a weight: set policy.learn.kl_beta above 0.")
    if learn.get("kl_adaptive"):
        raise ConfigError(
            f"{PATH} contradicts kl_adaptive=True, which adapts kl_beta to KL(pi_old || pi_new): drop one."
        )
    if policy.model.get("lstm_type"):
        raise ConfigError(f"{PATH} is not possible with policy.model.lstm_type: leave one out.")


def load_pretrained(model: nn.Module, path: str) -> nn.Module:
    """Return a copy of a model, with the parameters of a checkpoint and without gradients.

    Args:
        model: a model with the layers of the one in the checkpoint.
        path: a checkpoint of a run.

    Raises:
        CheckpointError: the file cannot be read.
        ConfigError: its model has other layers.
    """
    network, state = copy.deepcopy(model).requires_grad_(False), load_checkpoint(path)
    try:
        network.load_state_dict(state["policy"]["model"])
    except (KeyError, TypeError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ConfigError(f"{PATH}: '{path}' does not have this policy's model: {reason}") from error
    return network

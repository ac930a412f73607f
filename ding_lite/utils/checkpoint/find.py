"""Finds the checkpoint and the config of a run that has been trained."""

from __future__ import annotations

import os

from ding_lite.utils.registry import ConfigError


def find_checkpoint(path: str) -> str:
    """Return the file of a checkpoint: `path` itself, or the best checkpoint if `path` is a run's directory.

    Raises:
        ConfigError: there is none.
    """
    if not os.path.exists(path):
        raise ConfigError(f"The checkpoint '{path}' does not exist.")
    if not os.path.isdir(path):
        return path
    for folder in ("ckpt", ""):
        best = os.path.join(path, folder, "ckpt_best.pth.tar")
        if os.path.isfile(best):
            return best
    raise ConfigError(
        f"'{path}' holds no ckpt_best.pth.tar: expected a run's directory, its ckpt folder, or a checkpoint file."
    )


def find_config(checkpoint: str, advice: str) -> str:
    """Return the path of the config of the run that a checkpoint belongs to.

    Args:
        checkpoint: the path of the checkpoint.
        advice: what the user can do if there is none; it ends the message.

    Raises:
        ConfigError: the checkpoint does not lie in an experiment directory.
    """
    path = os.path.join(find_exp_dir(checkpoint), "total_config.py")
    if not os.path.isfile(path):
        raise ConfigError(f"'{checkpoint}' is not in the ckpt folder of an experiment: {advice}.")
    return path


def find_exp_dir(checkpoint: str) -> str:
    """Return the experiment directory of a checkpoint that lies in its ckpt folder."""
    return os.path.dirname(os.path.dirname(os.path.abspath(checkpoint)))

"""Rewards from demonstrations that are ranked by noise, D-REX (Brown et al. 2019, arXiv:1907.03976).

A clone of an expert plays with more and more random actions. Nobody has to rank what it plays: the less noise, the
better. From there on it is T-REX, see `trex.py`.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

from ding_lite.imitation.expert import join_data, record_best
from ding_lite.imitation.trex import TrexRewardModel
from ding_lite.utils.key import Key
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY, ConfigError


@REWARD_MODEL_REGISTRY.register("drex")
class DrexRewardModel(TrexRewardModel):
    """D-REX: `data_path` is the run of a clone, such as one with the policy `bc`, or a checkpoint of it."""

    config = dict(
        type="drex",
        expert_episodes=20,
        eps_list=Key([0.0, 0.25, 0.5, 0.75, 1.0], "shares of random actions, each in expert_episodes episodes"),
    )

    def _recorded(self, path: str, episodes: int) -> str:
        levels = [float(level) for level in self._cfg.eps_list]
        if len(set(levels)) < 2 or not all(0.0 <= level <= 1.0 for level in levels):
            raise ConfigError(f"reward_model.eps_list: expected at least two shares from 0 to 1, got {levels}.")
        parts = [record_best(path, episodes, level) for level in levels]
        if path in parts:
            raise ConfigError(
                f"reward_model.data_path '{path}': expected the directory of a run, whose policy plays with noise, or "
                "a checkpoint in it. To clone a data set first, train the policy 'bc' with it."
            )
        return join_data(parts, os.path.join(os.path.dirname(parts[0]), f"{len(levels)}_levels_of_noise.npz"))

    def _read_pairs(self, return_E: Tensor) -> Tensor:
        """Return pairs of trajectories `[P, 2]`, of which the second one had less noise."""
        if self._cfg.preferences_path:
            return super()._read_pairs(return_E)
        level_E = torch.tensor(self._cfg.eps_list).repeat_interleave(self._cfg.expert_episodes)
        return (level_E[:, None] > level_E).nonzero()

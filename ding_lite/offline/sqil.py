"""Soft Q imitation learning, SQIL (Reddy et al. 2020, arXiv:1905.11108): half replay, half a data set of an expert.

Half of every batch are transitions of a data set with the reward 1, the other half the policy's own with the reward 0.
An algorithm that learns from replay then imitates: it learns to come back to what the expert did and saw. In the paper
it is soft Q-learning. The environment's own rewards are not used; evaluations show them.

    policy.other.replay_buffer = dict(type="sqil", data_path="expert.hdf5")
"""

from __future__ import annotations

from typing import Any

import torch

from ding_lite.offline.demonstrations import DataReplayBuffer
from ding_lite.torch_utils.data import Batch
from ding_lite.utils.registry import BUFFER_REGISTRY, ConfigError


@BUFFER_REGISTRY.register("sqil")
class SQILReplayBuffer(DataReplayBuffer):
    """Uniform replay of transitions, in whose batches every second sample is an expert's."""

    def __init__(self, replay_buffer_size: int, num_envs: int, data_path: str = "", **options: Any) -> None:
        super().__init__(replay_buffer_size, num_envs, data_path, reward_norm="ones", **options)

    @classmethod
    def check_config(cls, cfg: Any) -> None:
        """Refuse what would change the rewards."""
        changes = "env.norm_reward" if cfg.env.norm_reward.use_norm else "reward_model" if "reward_model" in cfg else ""
        if changes:
            raise ConfigError(
                f"{changes} would change the rewards of policy.other.replay_buffer.type='sqil', which are 1 for the "
                "expert's steps and 0 for the policy's own, whatever the environment's are: leave it out."
            )

    def _join(self, own: Batch | None, data: Batch) -> Batch:
        if own is not None:
            own["reward"] = torch.zeros_like(own["reward"])
        return super()._join(own, data)

"""Soft Q imitation learning, SQIL (Reddy et al. 2020, arXiv:1905.11108): half replay, half a data set of an expert.

Half of every batch are transitions of a data set with the reward 1, the other half the policy's own with the reward 0.
An algorithm that learns from replay then imitates: it learns to come back to what the expert did and saw. In the paper
it is soft Q-learning. The environment's own rewards are not used; evaluations show them.

Only the buffer reads the data set, so policies, the loop and its workers need no change:

    policy.other.replay_buffer = dict(type="sqil", data_path="expert.hdf5")
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch

from ding_lite.offline.dataset import read_dataset
from ding_lite.policy.common_keys import IMITATION_KEYS
from ding_lite.torch_utils.data import Batch
from ding_lite.utils.key import Key
from ding_lite.utils.registry import BUFFER_REGISTRY, ConfigError
from ding_lite.utils.schedule import Scheduled
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.buffer import UniformReplayBuffer, UniformSampler

OWN = ("index", "traj_flag")  # columns of replay that no loss reads


@BUFFER_REGISTRY.register("sqil")
class SQILReplayBuffer(UniformReplayBuffer):
    """Uniform replay of transitions, in whose batches every second sample is an expert's.

    `data_path`, `data_type` and `action_units` are arguments of `read_dataset`, the others of `UniformReplayBuffer`.

    Raises:
        ConfigError: there is no data set, or the discount has a schedule.
        DatasetError: see `read_dataset`.
    """

    config: ClassVar[dict[str, Any]] = dict(
        data_path=Key("", "the expert's data set: a file, a directory or a Minari id"),
        data_type=IMITATION_KEYS["collect"]["data_type"],
        action_units=IMITATION_KEYS["collect"]["action_units"],
    )

    sampler: UniformSampler

    def __init__(
        self,
        replay_buffer_size: int,
        num_envs: int,
        data_path: str = "",
        data_type: str = "",
        action_units: str = "",
        *,
        seed: int = 0,
        nstep: int = 1,
        gamma: float = 0.99,
        **options: Any,
    ) -> None:
        if not data_path:
            raise ConfigError(
                "policy.other.replay_buffer.data_path: expected an expert's data set for the buffer 'sqil', got none: "
                "record one with collect_demo_data."
            )
        if isinstance(gamma, Scheduled):
            raise ConfigError(
                "policy.discount_factor is a schedule, but the rewards of the expert of the buffer 'sqil' are summed "
                "once, when it is read: give a number."
            )
        super().__init__(replay_buffer_size, num_envs, seed=seed, nstep=nstep, gamma=gamma, **options)
        self.expert = read_dataset(
            data_path, data_type, nstep=nstep, gamma=gamma, action_units=action_units, reward_norm="ones"
        )

    def fit(self, *args: Any, **options: Any) -> None:
        """Compare the data set with what the run needs, see `OfflineDataset.fit`."""
        self.expert.fit(*args, **options)

    def batches(self, batch_size: int, number: int) -> Iterator[Batch]:
        """Yield batches `[B, ...]`, of which B // 2 samples are the expert's; `index` are the places of the others.

        Raises:
            ConfigError: the policy needs a column that the data set does not have.
            ValueError: see `ReplayBuffer.batches`.
        """
        for own in super().batches(batch_size - batch_size // 2, number):
            expert = self.expert.gather(self.sampler.integers(len(self.expert), batch_size // 2))
            if missing := own.keys() - expert.keys() - {*OWN}:
                raise ConfigError(
                    f"policy.other.replay_buffer.type='sqil': the policy learns from '{min(missing)}' of each step, "
                    "which no data set has: choose a policy such as 'sql', 'dqn' or 'sac'."
                )
            own["reward"] = torch.zeros_like(own["reward"])
            joined = {key: tree_map(_join, own[key], expert[key]) for key in own if key not in OWN}
            yield joined | {"index": own["index"]}


def _join(own: torch.Tensor, expert: torch.Tensor) -> torch.Tensor:
    return torch.cat([own, expert.to(own)])

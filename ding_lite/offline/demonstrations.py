"""Replay of the policy's own transitions together with those of a data set, such as an expert's demonstrations.

Only the buffer reads the data set, so that any policy that learns from replay can begin with data and go on by playing:

    policy.other.replay_buffer = dict(type="demonstrations", data_path="expert.hdf5", ratio=0.5, first_updates=10000)

With `ratio=0.5`, half of each batch are transitions of the data, as in RLPD (Ball et al. 2023, arXiv:2302.02948); with
None, all transitions of both are drawn with the same probability. The data set stays as it is and is never overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.offline.dataset import read_dataset
from ding_lite.policy.common_keys import DATASET_KEYS, IMITATION_KEYS
from ding_lite.torch_utils.data import Batch
from ding_lite.utils.key import Key
from ding_lite.utils.registry import BUFFER_REGISTRY, ConfigError
from ding_lite.utils.schedule import Scheduled
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.buffer import ReplayBuffer, UniformSampler, create_ring_and_view
from ding_lite.worker.replay.prioritized import PrioritizedReplayBuffer, PrioritizedSampler

OWN = ("index", "traj_flag", "weight")  # columns of replay that data sets need not have


class DataReplayBuffer(ReplayBuffer):
    """Replay of transitions, whose batches contain transitions of a data set, too.

    Those of the data follow the own ones in a batch; `is_expert` `[B]` is true for them. `index` and `update` concern
    the own ones, which are drawn by priority if `alpha` is given, as by `PrioritizedReplayBuffer`. Each rank draws from
    the whole data set. The keys of `DemonstrationReplayBuffer` are arguments, and those of `create_ring_and_view`.

    Raises:
        ConfigError: there is no data set, or an option does not fit.
        DatasetError: see `read_dataset`.
    """

    config: ClassVar[dict[str, Any]] = {
        key: IMITATION_KEYS["collect"][key] for key in ("data_path", "data_type", "action_units")
    }

    sampler: UniformSampler | PrioritizedSampler

    def __init__(
        self,
        replay_buffer_size: int,
        num_envs: int,
        data_path: str = "",
        data_type: str = "",
        action_units: str = "",
        reward_norm: str = "",
        ratio: float | None = 0.5,
        first_updates: int = 0,
        alpha: float | None = None,
        beta: float = 0.4,
        anneal_step: int = 100000,
        *,
        seed: int = 0,
        batch_device: torch.device | str | None = None,
        nstep: int = 1,
        gamma: float = 0.99,
        **options: Any,
    ) -> None:
        check_options(data_path, gamma, ratio, alpha, options.get("unroll_len"))
        ring, view = create_ring_and_view(replay_buffer_size, num_envs, nstep, gamma, **options)
        sampler: Any = UniformSampler(seed)
        if alpha is not None:
            sampler = PrioritizedSampler(ring.num_places, ring.device, alpha, beta, anneal_step, seed)
        super().__init__(ring, sampler, view, batch_device)
        self.first_updates, self._ratio = first_updates, ratio
        self.data = read_dataset(
            data_path,
            data_type,
            nstep=nstep,
            gamma=gamma,
            action_units=action_units,
            reward_norm=reward_norm,
            one_step=options.get("one_step", False),
        )

    def fit(self, *args: Any, create_env: Any = None, **options: Any) -> None:
        """Compare the data set with what the run needs, see `OfflineDataset.fit`."""
        self.data.fit(*args, **options)

    def batches(self, batch_size: int, number: int) -> Iterator[Batch]:
        """Yield batches `[B, ...]`, see the class.

        Raises:
            ConfigError: the policy needs a column that the data set does not have.
        """
        taken = self._number_taken(batch_size)
        own: Iterable[Batch | None] = [None] * number
        if taken < batch_size:
            own = super().batches(batch_size - taken, number)
        for each in own:
            data = self.data.gather(self.sampler.integers(len(self.data), taken))
            yield self._join(each, data) | {"is_expert": self._is_expert(batch_size, taken)}

    def _number_taken(self, batch_size: int) -> int:
        """Return how many samples of a batch are the data's."""
        count = super().count()
        if not count:
            return batch_size
        if self._ratio is not None:
            return min(max(int(self._ratio * batch_size), 1), batch_size - 1)
        share, odds = len(self.data) / (len(self.data) + count), 2**20
        return int(batch_size * share + int(self.sampler.integers(odds, 1)) / odds)  # the mean is batch_size * share

    def _is_expert(self, batch_size: int, taken: int) -> Tensor:
        return torch.arange(batch_size, device=self._batch_device) >= batch_size - taken

    def _join(self, own: Batch | None, data: Batch) -> Batch:
        """Return a batch of own samples, if there are any, and then of the data."""
        if own is None:
            batch = tree_map(lambda leaf: leaf.to(self._batch_device), data)
            ones = {} if isinstance(self.sampler, UniformSampler) else {"weight": torch.ones_like(batch["reward"])}
            return batch | ones | {"index": torch.zeros(0, dtype=torch.int64)}
        if missing := own.keys() - data.keys() - {*OWN}:
            raise ConfigError(
                f"The policy learns from '{min(missing)}' of each step, which no data set has, so that it cannot learn "
                "from demonstrations: choose a policy such as 'dqn' or 'sac'."
            )
        if "weight" in own:
            data = data | {"weight": torch.ones_like(data["reward"])}
        joined = {key: tree_map(_concatenate, own[key], data[key]) for key in own.keys() & data.keys()}
        return joined | {"index": own["index"]}

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Set the priorities of own samples, which are the first ones of `priority` `[B]`."""
        if len(index):
            super().update(index, priority[: len(index)])


@BUFFER_REGISTRY.register("demonstrations")
class DemonstrationReplayBuffer(DataReplayBuffer):
    """Replay of own transitions and of demonstrations, or of any other data."""

    config = dict(
        reward_norm=DATASET_KEYS["collect"]["reward_norm"],
        ratio=Key(
            0.5,
            "share of the data in a batch; None: the data's share of all transitions",
            type=(float, None),
            above=0,
            below=1,
            constant="a batch has a whole number of samples",
        ),
        first_updates=Key(0, "learner iterations on the data alone, before the policy plays", low=0),
        alpha=Key(None, "exponent of the priorities of own samples; None: uniform", type=float, low=0, constant=True),
        beta=PrioritizedReplayBuffer.config["beta"],
        anneal_step=PrioritizedReplayBuffer.config["anneal_step"],
    )

    def count(self) -> int:
        """Return the number of samples that can be drawn, with those of the data."""
        return super().count() + len(self.data)

    @classmethod
    def check_config(cls, cfg: Any) -> None:
        """Refuse what would change own rewards alone."""
        if "reward_model" in cfg:
            raise ConfigError(
                "reward_model would change the rewards of the policy's own steps, and not those of "
                "policy.other.replay_buffer.data_path: leave one of them out."
            )


def _concatenate(own: Tensor, data: Tensor) -> Tensor:
    return torch.cat([own, data.to(own)])


def check_options(data_path: str, gamma: float, ratio: float | None, alpha: float | None, unroll_len: Any) -> None:
    """Check options of a buffer that reads a data set."""
    if not data_path:
        raise ConfigError(
            "policy.other.replay_buffer.data_path: expected a data set, got none: record one with collect_demo_data."
        )
    if isinstance(gamma, Scheduled):
        raise ConfigError(
            "policy.discount_factor is a schedule, but the rewards of the data set in policy.other.replay_buffer are "
            "summed once, when it is read: give a number."
        )
    if unroll_len is not None:
        raise ConfigError(
            "The policy learns from sequences, and this replay buffer offers transitions alone: set "
            "policy.other.replay_buffer.type='demonstration_sequences'."
        )
    if ratio is None and alpha is not None:
        raise ConfigError("policy.other.replay_buffer: ratio=None draws without priorities: leave out alpha.")

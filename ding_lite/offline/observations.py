"""Replay together with an expert's observations: a data set of what it saw, without what it did.

policy.other.replay_buffer = dict(type="observations", data_path="expert.hdf5")
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ding_lite.offline.dataset import read_dataset
from ding_lite.policy.common_keys import IMITATION_KEYS
from ding_lite.torch_utils.data import Batch
from ding_lite.utils.registry import BUFFER_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.buffer import UniformReplayBuffer


@BUFFER_REGISTRY.register("observations")
class ObservationReplayBuffer(UniformReplayBuffer):
    """Uniform replay of own transitions. `expert` of a batch `[B, ...]` has as many `obs` and `next_obs` of the data.

    Each rank draws from the whole data set.

    Raises:
        ConfigError: there is no data set, or it has no next observations.
        DatasetError: see `read_dataset`.
    """

    config = {key: IMITATION_KEYS["collect"][key] for key in ("data_path", "data_type")}

    def __init__(
        self, replay_buffer_size: int, num_envs: int, data_path: str = "", data_type: str = "", **options: Any
    ) -> None:
        super().__init__(replay_buffer_size, num_envs, **options)
        if not data_path:
            raise ConfigError(
                "policy.other.replay_buffer.data_path: expected a data set with an expert's observations, got none: "
                "record one with collect_demo_data."
            )
        self.data = read_dataset(data_path, data_type, ("obs", "next_obs"))
        if "next_obs" not in self.data.columns:
            raise ConfigError(
                f"Data set '{data_path}' lacks 'next_obs', which shows what each action of the expert has led to: add "
                "this column."
            )

    def fit(self, *args: Any, create_env: Any = None, **options: Any) -> None:
        """Compare the data set with what the run needs, see `OfflineDataset.fit`."""
        self.data.fit(*args, **options)

    def batches(self, batch_size: int, number: int) -> Iterator[Batch]:
        for own in super().batches(batch_size, number):
            expert = self.data.gather(self.sampler.integers(len(self.data), batch_size))  # type: ignore[attr-defined]
            yield own | {"expert": tree_map(lambda leaf: leaf.to(self._batch_device), expert)}

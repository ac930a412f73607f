"""Replay of the policy's own sequences together with those of a data set, for policies with `unroll_len`.

    policy.other.replay_buffer = dict(type="demonstration_sequences", data_path="expert.hdf5", ratio=0.25)

As in R2D3 (Paine et al. 2019, arXiv:1909.01387), a share of each batch are sequences of demonstrations, and both kinds
are drawn by priority. The data set is stored as replay stores what one environment has played, and never overwritten.
Its recurrent states are unknown, so its sequences start with zeros, and burn-in brings these up to date.

Shapes: M transitions of the data set, T rows of a sequence, B sequences, K truncated trajectories.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.offline.dataset import OfflineDataset, read_dataset
from ding_lite.offline.demonstrations import DataReplayBuffer, DemonstrationReplayBuffer, check_options
from ding_lite.policy.common_keys import DATASET_KEYS
from ding_lite.torch_utils.data import Batch, Block
from ding_lite.utils.key import Key
from ding_lite.utils.registry import BUFFER_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.prioritized import PrioritizedReplayBuffer, PrioritizedSampler
from ding_lite.worker.replay.ring import Ring

OWN = ("prev_state", "index", "weight")  # keys of own batches that are found otherwise for the data
OF_SEQUENCES = ("prev_state", "last_obs", "index", "weight")  # those whose first dimension is B


@BUFFER_REGISTRY.register("demonstration_sequences")
class DemonstrationSequenceBuffer(PrioritizedReplayBuffer):
    """Prioritised replay of sequences, whose batches contain sequences of a data set, too.

    Those of the data follow the own ones in a batch; `is_expert` `[B]` is true for them. Each rank draws from the whole
    data set. The keys of `config` are arguments, and those of `create_ring_and_view`. A run that goes on with another
    number of ranks begins with equal priorities of the data.

    Raises:
        ConfigError: there is no data set, or an option does not fit.
        DatasetError: see `read_dataset`; or it has no sequence that is long enough.
    """

    config: ClassVar[dict[str, Any]] = {
        **DataReplayBuffer.config,
        "reward_norm": DATASET_KEYS["collect"]["reward_norm"],
        "ratio": Key(
            0.25,
            "share of the data in a batch, at least one sequence",
            above=0,
            below=1,
            constant="a batch has a whole number of sequences",
        ),
    }

    def __init__(
        self,
        replay_buffer_size: int,
        num_envs: int,
        data_path: str = "",
        data_type: str = "",
        action_units: str = "",
        reward_norm: str = "",
        ratio: float = 0.25,
        alpha: float = 0.6,
        beta: float = 0.4,
        anneal_step: int = 100000,
        *,
        seed: int = 0,
        batch_device: torch.device | str | None = None,
        unroll_len: int | None = None,
        **options: Any,
    ) -> None:
        check_options(data_path, gamma=1.0, ratio=ratio, alpha=alpha, unroll_len=None)  # gamma is that of each draw
        if unroll_len is None:
            raise ConfigError(
                "policy.other.replay_buffer.type='demonstration_sequences' is for policies with unroll_len: set "
                "'demonstrations'."
            )
        options |= {"unroll_len": unroll_len}
        super().__init__(
            replay_buffer_size, num_envs, alpha, beta, anneal_step, seed=seed, batch_device=batch_device, **options
        )
        self._ratio, self._stack = ratio, options.get("frame_stack", 0)
        self._draw = (alpha, beta, anneal_step, seed + 1)
        self.data: OfflineDataset | None = read_dataset(
            data_path, data_type, action_units=action_units, reward_norm=reward_norm
        )

    def fit(self, *args: Any, create_env: Any = None, **options: Any) -> None:
        """Compare the data set with what the run needs, see `OfflineDataset.fit`, and store it as sequences."""
        assert self.data is not None
        self.data.fit(*args, **options)
        block = to_block(self.data)
        number = len(block["reward"])
        self._data_ring = Ring(number + 1, 1, self._stack, self.ring.device, keeps_last=True)
        self._data_sampler = PrioritizedSampler(self._data_ring.num_places, self.ring.device, *self._draw)
        self._data_ring.push(block)
        self._data_starts = self._data_ring.starts(self.view.span)
        if not self._data_starts:
            raise ConfigError(
                f"policy.other.replay_buffer.data_path has {number} steps, fewer than the {self.view.span} of a "
                "sequence: record more, or set policy.unroll_len lower."
            )
        self._data_sampler.pushed(self._data_ring, number, self.view.span)
        self.data = None

    def batches(self, batch_size: int, number: int) -> Iterator[Batch]:
        """Yield batches, see the class.

        Raises:
            ConfigError: the policy needs a column that the data set does not have.
        """
        taken = min(max(int(self._ratio * batch_size), 1), batch_size - 1)
        for own in super().batches(batch_size - taken, number):
            drawn = self._data_sampler.draw(self._data_ring, self._data_starts, taken)
            data = self.view.gather(self._data_ring, drawn) | drawn
            data["index"] = data["index"] + self.ring.num_places
            yield join_sequences(own, tree_map(lambda leaf: leaf.to(self._batch_device), data))

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Set the priorities `[B]` of own sequences, and of the data's."""
        own = index < self.ring.num_places
        super().update(index[own], priority[own])
        self._data_sampler.update(index[~own] - self.ring.num_places, priority[~own])

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"data": self._data_sampler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if "data" in state:
            self._data_sampler.load_state_dict(state["data"])

    @classmethod
    def check_config(cls, cfg: Any) -> None:
        """Refuse what would change own rewards alone."""
        DemonstrationReplayBuffer.check_config(cfg)


def to_block(data: OfflineDataset) -> Block:
    """Return the transitions of a data set as the rollout block `[M, 1, ...]` of one environment."""
    rows = data.gather(torch.arange(len(data)))
    step_M, next_obs = data.episode_steps(), rows.pop("next_obs")
    cut_M = torch.cat([step_M[1:] == 0, torch.ones(1, dtype=torch.bool)])
    rows.pop("value_gamma")
    block = tree_map(lambda leaf: leaf[:, None], rows | {"traj_flag": cut_M, "episode_step": step_M.int()})
    block["last_obs"] = tree_map(lambda leaf: leaf[-1:], next_obs)
    block["final_index"] = cut_M.nonzero().squeeze(1)
    return block | {"final_obs": tree_map(lambda leaf: leaf[cut_M], next_obs)}


def join_sequences(own: Batch, data: Batch) -> Batch:
    """Return a batch of own sequences, and then of the data's, with `is_expert` `[B]`; see `SequenceView`."""
    finals = ("final_index", "final_obs")
    if missing := own.keys() - data.keys() - {*OWN, *finals}:
        raise ConfigError(
            f"The policy learns from '{min(missing)}' of each step, which no data set has, so that it cannot learn "
            "from demonstrations: choose a policy such as 'r2d3'."
        )
    sizes = [batch["reward"].shape[1] for batch in (own, data)]
    zeros = tree_map(lambda leaf: torch.zeros_like(leaf[:1]).expand(sizes[1], *leaf.shape[1:]), own["prev_state"])
    data = data | {"prev_state": zeros}
    joined: Batch = {
        key: tree_map(lambda *parts: _concatenate(parts, dim=int(key not in OF_SEQUENCES)), own[key], data[key])  # noqa: B023
        for key in own.keys() - {*finals}
    }
    places, finals_of = [], []
    for batch, first, size in ((own, 0, sizes[0]), (data, *sizes)):
        if "final_index" in batch:
            row_K, column_K = batch["final_index"] // size, batch["final_index"] % size
            places.append(row_K * sum(sizes) + first + column_K)
            finals_of.append(batch["final_obs"])
    if places:
        joined["final_index"] = torch.cat(places)
        joined["final_obs"] = tree_map(lambda *parts: _concatenate(parts), *finals_of)
    return joined | {"is_expert": torch.arange(sum(sizes), device=joined["reward"].device) >= sizes[0]}


def _concatenate(parts: tuple[Tensor, ...], dim: int = 0) -> Tensor:
    return torch.cat([part.to(parts[0]) for part in parts], dim)

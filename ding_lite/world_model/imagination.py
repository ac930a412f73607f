"""Stores imagined steps, and mixes them into the batches of replay.

Shapes: B samples of a batch, M imagined steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ding_lite.torch_utils.data import Batch
from ding_lite.utils.tree import tree_map
from ding_lite.worker import ReplayBuffer

COLUMNS = ("obs", "action", "reward", "next_obs", "done")


class Imagination:
    """Holds the steps that a world model imagined after its last few trainings, the older ones first.

    Args:
        retain: number of trainings whose steps are kept.
    """

    def __init__(self, retain: int) -> None:
        self._retain = retain
        self._sizes: list[int] = []  # M of each training
        self.steps: dict[str, Tensor] = {}  # `COLUMNS`, `[M, ...]`

    def __len__(self) -> int:
        return sum(self._sizes)

    def push(self, steps: dict[str, Tensor]) -> None:
        """Add the steps of a training; those of the oldest one are dropped if there are too many."""
        outdated = self._sizes[0] if len(self._sizes) == self._retain else 0
        self._sizes = [*self._sizes[outdated > 0 :], len(steps["reward"])]
        kept = {key: column[outdated:] for key, column in self.steps.items()}
        self.steps = {key: torch.cat([kept[key], steps[key]]) if kept else steps[key] for key in COLUMNS}

    def draw(self, number: int) -> dict[str, Tensor]:
        """Return some steps, drawn uniformly by torch's generator: `COLUMNS`, `[B, ...]`."""
        index_B = torch.randint(len(self), (number,)).to(self.steps["reward"].device)
        return {key: column[index_B] for key, column in self.steps.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"sizes": list(self._sizes), "steps": {key: column.cpu() for key, column in self.steps.items()}}

    def load_state_dict(self, state: dict[str, Any], device: torch.device) -> None:
        self._sizes = list(state["sizes"])
        self.steps = tree_map(lambda column: column.to(device), state["steps"])


class MixedReplay:
    """Draws batches of which some samples are real and the others imagined, with the methods of `ReplayBuffer`.

    While nothing has been imagined, all samples are real.

    Args:
        replay: the real steps.
        imagination: the imagined ones.
        real_ratio: share of the real samples in a batch.
        policy: whose discount the values after imagined steps have.
    """

    first_updates = 0

    def __init__(self, replay: ReplayBuffer, imagination: Imagination, real_ratio: float, policy: Any) -> None:
        self._replay, self._imagination, self._real_ratio, self._policy = replay, imagination, real_ratio, policy

    def count(self) -> int:
        """Return the number of real samples that can be drawn."""
        return self._replay.count()

    def batches(self, batch_size: int, number: int) -> Iterator[Batch]:
        """Yield batches as `ReplayBuffer.batches` does; at least one sample of each is real."""
        num_real = max(1, round(batch_size * self._real_ratio)) if len(self._imagination) else batch_size
        for real in self._replay.batches(num_real, number):
            yield self._extended(real, batch_size - num_real) if num_real < batch_size else real

    def _extended(self, real: Batch, number: int) -> Batch:
        steps = self._imagination.draw(number)
        gamma_B = torch.full_like(steps["reward"], self._policy.current_config.discount_factor)
        steps |= {"traj_flag": steps["done"], "value_gamma": gamma_B}
        return {key: torch.cat([real[key], column.to(real[key].dtype)]) for key, column in steps.items()}

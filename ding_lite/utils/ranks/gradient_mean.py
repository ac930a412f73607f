"""Averages a flat gradient over ranks, in shared memory where they have some.

Shapes: L ranks of this machine, P parameters.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from ding_lite.utils.ranks.collectives import allreduce_data, await_gpu
from ding_lite.utils.ranks.heartbeat import waiting
from ding_lite.utils.ranks.machine_group import AVERAGE, machine_group


class GradientMean:
    """Owns the memory of a flat gradient, and averages it over ranks.

    The gradients of a machine's ranks are rows of memory that they share. Each rank adds up a part of the rows, and
    nothing is sent. Between machines, the first rank of each sends the sum of its machine, so the traffic does not grow
    with the ranks of a machine. Without shared memory, one all-reduce does everything.

    Attributes:
        gradient: this rank's gradient `[P]`, zero at first.
        is_shared: whether it is in memory that all ranks of this machine map.
    """

    def __init__(self, parameter: Tensor, share_memory: bool) -> None:
        self._group, self._world_size = machine_group(), dist.get_world_size()
        self._row_LP: Tensor | None = None
        if share_memory and parameter.device.type == "cpu" and self._group.is_shared_somewhere:
            self._row_LP = self._allocate(len(parameter), parameter.dtype)
        self.is_shared = self._row_LP is not None
        self.gradient = torch.zeros_like(parameter.data) if self._row_LP is None else self._row_LP[self._group.index]

    def _allocate(self, size: int, dtype: torch.dtype) -> Tensor | None:
        """Return zeros `[L, P]` that the ranks of this machine share; None on every rank if a machine has no room."""
        num_rows = len(self._group.ranks)
        memory = self._group.allocate(num_rows * size * dtype.itemsize)
        if allreduce_data(int(memory is None)):
            return None
        return torch.frombuffer(memory, dtype=dtype).view(num_rows, size)

    def compute(self) -> None:
        """Replace the gradient of every rank by the mean; a collective call."""
        if self._row_LP is None:
            with waiting():
                dist.all_reduce(self.gradient)
                await_gpu(self.gradient)
            self.gradient.div_(self._world_size)
            return
        group = self._group
        first, *others = self._row_LP.tensor_split(len(self._row_LP), dim=1)[group.index]
        group.barrier(AVERAGE, self._row_LP.shape[1])  # all gradients are there
        for other in others:
            first.add_(other)
        if group.machines > 1:
            group.barrier()  # the first row is the sum of this machine
            if group.index == 0:
                group.add_machines(self._row_LP[0])
            group.barrier()  # the first row is the sum of all machines
        first.div_(self._world_size)
        for other in others:
            other.copy_(first)
        group.barrier()  # all parts are averaged

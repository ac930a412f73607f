"""Averages a gradient over all ranks, in memory that they share or with one all-reduce."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from ding_lite.utils.dist.heartbeat import waiting
from ding_lite.utils.dist.ranks import get_rank, get_world_size
from ding_lite.utils.dist.shared_memory import create_shared_rows


class GradientMean:
    """Owns the memory of a flat gradient, and averages the gradient over several ranks.

    In shared memory, each rank averages one part of the gradients of all ranks in place, and nothing is sent.

    Args:
        parameter: the flat parameter `[P]`.
        share_memory: whether to use shared memory if the ranks share any and the parameter is on the CPU.

    Attributes:
        gradient: this rank's gradient `[P]`, zero at first.
        is_shared: whether it is in memory that all ranks map.
    """

    def __init__(self, parameter: Tensor, share_memory: bool) -> None:
        shares = share_memory and parameter.device.type == "cpu"
        self._rows = create_shared_rows(len(parameter), parameter.dtype) if shares else None
        self.is_shared = self._rows is not None
        self.gradient = torch.zeros_like(parameter.data) if self._rows is None else self._rows[get_rank()]
        self._token = torch.zeros(1)  # see `_wait_for_all`

    def compute(self) -> None:
        """Replace the gradient of every rank by the mean over all ranks; a collective call."""
        world_size = get_world_size()
        if self._rows is None:
            with waiting():
                dist.all_reduce(self.gradient)
            self.gradient.div_(world_size)
            return
        self._wait_for_all()  # until all gradients are complete
        first, *others = self._rows.tensor_split(world_size, dim=1)[get_rank()]
        for other in others:
            first.add_(other)
        first.div_(world_size)
        for other in others:
            other.copy_(first)
        self._wait_for_all()  # until all parts are averaged

    def _wait_for_all(self) -> None:
        """Wait until every rank has called this; with gloo, reducing one number is much faster than a barrier."""
        with waiting():
            dist.all_reduce(self._token)

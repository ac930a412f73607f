"""Parameters and gradients as one flat tensor each, to average, clip and step at once."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ding_lite.utils.dist.ranks import get_rank, get_world_size
from ding_lite.utils.dist.shared_memory import create_shared_rows
from ding_lite.utils.dist.watchdog import waiting

ALIGN_BYTES = 64  # every parameter starts on this boundary inside its flat tensor, for vectorised kernels
PIECES = 2  # collectives per bucket: gloo works on two at a time


class FlatParameters:
    """All trainable parameters of a module, and their gradients, as views of one tensor each.

    An optimizer over `[flat.parameter]`, gradient clipping and the average over ranks then handle one tensor. Each
    parameter keeps its strides, so a channels_last model stays one. Gaps (less than `ALIGN_BYTES`) between them
    stay zero.

    A step is: `zero_grad()`, backward, `average_grad()`, clip, optimizer step. With `overlap` there must be exactly one
    backward pass in it, because averaging starts while it runs.

    Args:
        module: on its final device, with its final dtype; moving it later is an error.
        overlap: average the last layers' gradients during backward.
        bucket_bytes: least size of the gradients that are sent together with `overlap`.
        share_memory: where all ranks are on one machine, keep gradients in memory that all of them map. They are then
            averaged in place, each rank its part, with no copy through sockets, and nothing is left to overlap.

    Attributes:
        parameter: the flat parameter `[P]`, whose `.grad` is the flat gradient.
        gradient: the flat gradient `[P]`.
        flag: one more number of the gradient, scalar, that no parameter has: zero after `zero_grad`. What is written
            into it before backward is averaged with the rest, and enters its norm.

    Raises:
        ValueError: if nothing is trainable, or dtypes or devices differ.
    """

    def __init__(
        self,
        module: nn.Module,
        overlap: bool = False,
        bucket_bytes: int = 1 << 20,
        share_memory: bool = False,
    ) -> None:
        self._params = [param for param in module.parameters() if param.requires_grad]
        kinds = sorted({f"{param.dtype} on {param.device}" for param in self._params})
        if len(kinds) != 1:
            raise ValueError(
                f"FlatParameters: expected trainable parameters of one dtype on one device, got "
                f"{', '.join(kinds) or 'none'}. Move the module first, or make one FlatParameters for each."
            )
        unit = max(1, ALIGN_BYTES // self._params[0].element_size())
        starts = [0]
        for param in self._params:
            starts.append(starts[-1] + -(-param.numel() // unit) * unit)
        flag, starts[-1] = starts[-1], starts[-1] + unit
        self.parameter = nn.Parameter(self._params[0].data.new_zeros(starts[-1]))
        share_memory = share_memory and self.parameter.device.type == "cpu"
        self._rows = create_shared_rows(starts[-1], self.parameter.dtype) if share_memory else None
        own = torch.zeros_like(self.parameter.data) if self._rows is None else self._rows[get_rank()]
        self.parameter.grad = self.gradient = own
        self.flag = own[flag]
        self._views: list[tuple[Tensor, Tensor]] = []
        for param, start in zip(self._params, starts, strict=False):
            strides = torch.empty_like(param, device="meta").stride()  # its own if dense
            data, grad = (
                flat[start:].as_strided(param.shape, strides) for flat in (self.parameter.data, self.gradient)
            )
            data.copy_(param.data)
            param.data, param.grad = data, grad
            self._views.append((data, grad))
        self._world_size, self._works = get_world_size(), list[dist.Work]()
        self._token = torch.zeros(1)  # see `_wait_for_all`
        self._ready, self._launched = set[int](), 0  # parameters whose gradient is final; buckets on their way
        self._buckets: list[tuple[Tensor, set[int]]] = [(self.gradient, set())]
        if overlap and self._world_size > 1 and self._rows is None:
            self._make_buckets(starts, bucket_bytes // self.gradient.element_size())

    def _make_buckets(self, starts: list[int], least: int) -> None:
        """Cut the flat gradient into buckets, from its end, where backward begins, and hook every parameter."""
        self._buckets, stop = [], len(self._params)
        for index in reversed(range(stop)):
            if starts[stop] - starts[index] >= least or index == 0:
                self._buckets.append((self.gradient[starts[index] : starts[stop]], set(range(index, stop))))
                stop = index
            self._params[index].register_post_accumulate_grad_hook(lambda _, index=index: self._on_ready(index))

    def _on_ready(self, index: int) -> None:
        if index in self._ready:
            raise RuntimeError(
                "FlatParameters: a second backward pass before average_grad(), while the first one's gradients are "
                "being averaged. Add the losses and call backward once, or use overlap=False (bp_update_sync=True)."
            )
        self._ready.add(index)
        # One fixed order on every rank: a bucket waits for those before it, even if it is ready sooner.
        while self._launched < len(self._buckets) and self._buckets[self._launched][1] <= self._ready:
            self._launch_next()

    def _launch_next(self) -> None:
        pieces = self._buckets[self._launched][0].chunk(PIECES)
        self._works += [dist.all_reduce(piece, async_op=True) for piece in pieces]
        self._launched += 1

    def _check(self) -> None:
        views = zip(self._params, self._views, strict=True)
        intact = all(param.grad is grad and param.data_ptr() == data.data_ptr() for param, (data, grad) in views)
        if not intact or self.parameter.grad is not self.gradient:
            raise RuntimeError(
                "FlatParameters: a parameter or its gradient was replaced and is no view of the flat tensor any more. "
                "Use flat.zero_grad() instead of the optimizer's or the module's, and move the module before this."
            )

    def zero_grad(self) -> None:
        """Fill all gradients with zero, in place.

        Raises:
            RuntimeError: if a gradient was replaced, or an overlapped average was begun and not finished.
        """
        self._check()
        if self._ready:
            raise RuntimeError("FlatParameters: with overlap, call average_grad() after backward, before zero_grad().")
        self.gradient.zero_()

    def average_grad(self) -> None:
        """Replace the gradients by their mean over all ranks; a parameter unused on a rank counts as zero there.

        Raises:
            RuntimeError: if a gradient was replaced, so that the optimizer would not see it.
        """
        self._check()
        if self._world_size == 1:
            return
        if self._rows is not None:
            self._wait_for_all()  # all gradients are there
            first, *others = self._rows.tensor_split(self._world_size, dim=1)[get_rank()]
            for other in others:
                first.add_(other)
            first.div_(self._world_size)
            for other in others:
                other.copy_(first)
            self._wait_for_all()  # all parts are averaged
            return
        while self._launched < len(self._buckets):
            self._launch_next()
        with waiting():
            for work in self._works:
                work.wait()
        self.gradient.div_(self._world_size)
        self._works.clear()
        self._ready.clear()
        self._launched = 0

    def _wait_for_all(self) -> None:
        """Return when every rank has come here. gloo sums one number in a fraction of its barrier's time."""
        with waiting():
            dist.all_reduce(self._token)

    def broadcast(self, src: int = 0) -> None:
        """Give every rank the parameters of rank `src`."""
        if self._world_size > 1:
            with waiting():
                dist.broadcast(self.parameter.data, src=src)

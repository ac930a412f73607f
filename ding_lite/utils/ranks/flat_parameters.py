"""Keeps all P parameters in one flat tensor, and all gradients in another, to average, clip and step them at once."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from ding_lite.utils.ranks.collectives import get_world_size
from ding_lite.utils.ranks.gradient_mean import GradientMean

ALIGN_BYTES = 64  # every parameter starts at a multiple of this in the flat tensor, for vectorised kernels


class FlatParameters:
    """Turns all trainable parameters of modules, and their gradients, into views of two flat tensors.

    Each parameter keeps its strides, so a channels_last model stays channels_last. The gaps between parameters, each
    smaller than `ALIGN_BYTES`, stay zero. A step is: `zero_grad()`, backward, `average_grad()`, clip, optimizer step.

    Args:
        modules: modules on their final device, with their final dtype; they must not be moved later.
        share_memory: whether to keep the gradient in memory that all ranks map, if possible; see `GradientMean`.

    Attributes:
        parameters: the trainable parameters of the modules, in the order of the flat tensors.
        parameter: the flat parameter `[P]`, whose `.grad` is `gradient`.
        gradient: the flat gradient `[P]`.
        gradients: the gradients of `parameters`, views of `gradient`.
        parts: one flat parameter for each module, a view of `parameter`; for a single module, `parameter` itself.
        flag: a scalar at the end of the gradient that belongs to no parameter and is zero after `zero_grad`. A value
            that is written to it before backward is averaged with the gradient and is part of its norm.
        is_shared: whether the gradient is in memory that all ranks of this machine map.

    Raises:
        ValueError: no parameter is trainable, dtypes or devices differ, or two modules share a parameter.
    """

    def __init__(self, *modules: nn.Module, share_memory: bool = False) -> None:
        groups = [[param for param in module.parameters() if param.requires_grad] for module in modules]
        self.parameters = [param for group in groups for param in group]
        _check_parameters(self.parameters)
        unit = max(1, ALIGN_BYTES // self.parameters[0].element_size())
        starts = [0]
        for param in self.parameters:
            starts.append(starts[-1] + -(-param.numel() // unit) * unit)
        flag, size = starts[-1], starts[-1] + unit
        self.parameter = nn.Parameter(self.parameters[0].data.new_zeros(size))
        self._mean = GradientMean(self.parameter, share_memory) if get_world_size() > 1 else None
        self.is_shared = self._mean is not None and self._mean.is_shared
        self._starts, self._flag_place = starts[:-1], flag
        ends = list(itertools.accumulate(map(len, groups), initial=0))
        self._places = [slice(starts[first], starts[end]) for first, end in itertools.pairwise(ends)]
        self.parts = [self.parameter] if len(groups) == 1 else [nn.Parameter(self.parameter.data) for _ in groups]
        gradient = torch.zeros_like(self.parameter.data) if self._mean is None else self._mean.gradient
        for param, data in zip(self.parameters, self.views(self.parameter.data), strict=True):
            data.copy_(param.data)
        self.move(self.parameter.data, gradient)

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return the parameters' places in a tensor `[..., P]` like `parameter`, each `[..., *shape]`."""
        found = []
        for param, start in zip(self.parameters, self._starts, strict=True):
            strides = torch.empty_like(param, device="meta").stride()  # its own if dense
            offset = flat.storage_offset() + start
            found.append(flat.as_strided(flat.shape[:-1] + param.shape, flat.stride()[:-1] + strides, offset))
        return found

    def move(self, data: Tensor, gradient: Tensor) -> None:
        """Let the parameters and their gradients be views of these tensors `[P]`, which have the values already.

        The parameters, `parameter` and `parts` stay the objects that they are, so an optimizer need not know.
        """
        self.parameter.data, self.gradient = data, gradient
        self.parameter.grad, self.flag = gradient, gradient[self._flag_place]
        self._views = list(zip(self.views(data), self.views(gradient), strict=True))
        for param, (place, grad) in zip(self.parameters, self._views, strict=True):
            param.data, param.grad = place, grad
        self.gradients = [grad for _, grad in self._views]
        for part, where in zip(self.parts if len(self.parts) > 1 else (), self._places, strict=False):
            part.data, part.grad = data[where], gradient[where]
        self._grads = [part.grad for part in self.parts]

    def check(self) -> None:
        """Raise `RuntimeError` if a parameter or a gradient was replaced."""
        views = zip(self.parameters, self._views, strict=True)
        intact = all(param.grad is grad and param.data_ptr() == data.data_ptr() for param, (data, grad) in views)
        if not intact or any(part.grad is not grad for part, grad in zip(self.parts, self._grads, strict=True)):
            raise RuntimeError(
                "FlatParameters: a parameter or its gradient was replaced and is no longer a view of the flat tensor. "
                "Call zero_grad() of FlatParameters, not of the optimizer or the module, and move the module earlier."
            )

    def zero_grad(self) -> None:
        """Set all gradients to zero, in place, after a `check`."""
        self.check()
        self.gradient.zero_()

    def average_grad(self) -> None:
        """Replace the gradients by their mean over all ranks; of an unused parameter it counts as zero. Collective."""
        self.check()
        if self._mean is not None:
            self._mean.compute()


def _check_parameters(params: list[nn.Parameter]) -> None:
    kinds = sorted({f"{param.dtype} on {param.device}" for param in params})
    if len(kinds) != 1:
        raise ValueError(
            f"FlatParameters: expected trainable parameters of one dtype on one device, got "
            f"{', '.join(kinds) or 'none'}. Move the module first, or create a FlatParameters for each group."
        )
    if len({id(param) for param in params}) < len(params):
        raise ValueError("FlatParameters: two modules share a parameter; give each parameter to one of them only.")

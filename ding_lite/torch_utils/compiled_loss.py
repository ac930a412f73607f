"""Computes a loss and its gradient as one graph: compiled by torch.compile, or replayed on a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from ding_lite.torch_utils.cuda_graph import CudaGraphs, copies
from ding_lite.torch_utils.optimizer import Loss
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from ding_lite.utils.ranks.interrupt import blocking_signals
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_leaves

OPTIONS: dict[str, Any] = {
    "cpp_wrapper": True,  # C++ calls the kernels; Python takes a third of a small network's step
    "compile_threads": 1,  # compile in this process, so that no workers are left when the run ends
    "cpp.vec_isa_ok": True,  # torch would compile six programs to see whether g++ knows the processor's instructions
    "cpp_cache_precompile_headers": False,  # precompiling costs more than it saves in up to four graphs
}


class GraphedLoss:
    """Base class of losses whose forward and backward passes are one function, without state in between."""

    def __init__(self, loss: Loss, flat: FlatParameters) -> None:
        self._loss, self._flat = loss, flat

    def _compute(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor], tuple[Tensor, ...]]:
        loss, figures = self._loss(batch)
        gradients = torch.autograd.grad(loss, self._flat.parameters, allow_unused=True, materialize_grads=True)
        return loss.detach(), figures, gradients


class CapturedLoss(GraphedLoss):
    """A loss that a GPU replays as a CUDA graph, see `CudaGraphs`; the graph also writes the gradient into `flat`.

    If the loss is a method, numbers that are attributes of its object may change: there is a graph for each of them.
    """

    def __init__(self, loss: Loss, flat: FlatParameters) -> None:
        super().__init__(loss, flat)
        self._graphs = CudaGraphs()
        self._attributes = vars(getattr(loss, "__self__", self))

    def _write_gradient(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        loss, figures, gradients = self._compute(batch)
        torch._foreach_copy_(self._flat.gradients, gradients)
        self._flat.flag.copy_(loss * 0)
        return {**figures, "": loss}

    def __call__(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Write the gradient; return the loss of a batch and detached figures."""
        numbers = tuple(value for value in self._attributes.values() if isinstance(value, int | float))
        figures = copies(self._graphs.run(self._write_gradient, batch, key=numbers))
        return figures.pop(""), figures


class CompiledLoss(GraphedLoss):
    """A loss compiled by torch.compile. Results differ from eager ones by rounding.

    The first batch compiles, which takes 10 to 30 seconds and needs a C++ compiler. A batch of a second size compiles
    once more, for batches of any size. Torch keeps the result on disk, and the next run starts faster.
    """

    def __init__(self, loss: Loss, flat: FlatParameters) -> None:
        super().__init__(loss, flat)
        self._gradients: tuple[Tensor, ...] = ()
        self._sizes: set[torch.Size] = set()  # of batches that it is compiled for
        torch._dynamo.config.trace_autograd_ops = True  # otherwise backward is a separate graph
        torch._dynamo.config.allow_rnn = True  # otherwise it refuses to see torch's LSTM, even to read its weights
        alone: dict[str, Any] = {"isolate_recompiles": True}  # torch limits how often a function may be compiled
        self._graph = torch.compile(self._compute, fullgraph=True, options=OPTIONS, **alone)

    def __call__(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a batch and detached figures; raise `ConfigError` if torch cannot compile the loss."""
        size = next(tree_leaves(batch)).shape
        try:
            # Ctrl-C would reach the C++ compiler too, which leaves half a library in torch's cache.
            with nullcontext() if size in self._sizes else blocking_signals():
                loss, figures, self._gradients = self._graph(batch)
        except (torch._dynamo.exc.TorchDynamoException, torch._dynamo.exc.FailOnRecompileLimitHit) as error:
            cause = str(getattr(error, "inner_exception", error)).strip().splitlines()[0]
            if " " in torch.__file__:
                cause += f" (perhaps because of the space in '{torch.__file__}', which linkers refuse)."
            name = getattr(self._loss, "__qualname__", self._loss)
            raise ConfigError(
                f"policy.compile=True: torch.compile failed for {name}: {cause.rstrip('.')}. Set policy.compile=False."
            ) from error
        self._sizes.add(size)
        return loss, figures

    def backward(self, loss: Tensor) -> None:
        """Write the gradients of `loss`, which the last call returned, into `flat`."""
        torch._foreach_copy_(self._flat.gradients, self._gradients)
        self._gradients = ()

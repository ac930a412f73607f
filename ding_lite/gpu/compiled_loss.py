"""Computes losses and their gradients as graphs: compiled by torch.compile, or replayed on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ding_lite.gpu.cuda_graph import CudaGraphs, capturable, copies
from ding_lite.gpu.reads import bound_values, freeze
from ding_lite.torch_utils.eager import Eager, checked_output
from ding_lite.torch_utils.optimizer import Loss
from ding_lite.utils.ranks.interrupt import blocking_signals
from ding_lite.utils.registry import ConfigError, UserError
from ding_lite.utils.tree import tree_leaves

MOST_LOSSES = 16  # of one optimizer
OPTIONS: dict[str, Any] = {
    "cpp_wrapper": True,  # C++ calls the kernels; Python takes a third of a small network's step
    "compile_threads": 1,  # compile in this process, so that no workers are left when the run ends
    "cpp.vec_isa_ok": True,  # torch would compile six programs to see whether g++ knows the processor's instructions
    "cpp_cache_precompile_headers": False,  # precompiling costs more than it saves in up to four graphs
}


class GraphedLoss(Eager):
    """Base class: forward and backward pass of a loss become one function, without state in between, one for each loss.

    Two losses are the same if they are the same method, or the same function with the same values bound to it.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._known: dict[Hashable, Any] = {}

    def _find(self, loss: Loss) -> Any:
        """Return what `_create` returned for this loss."""
        key = freeze(bound_values(loss))
        if key not in self._known:
            if len(self._known) == MOST_LOSSES:
                raise UserError(
                    f"{_name(loss)} is loss number {MOST_LOSSES + 1} of one optimizer, and each becomes a graph: pass "
                    "the same methods in every step, not functions with new tensors or objects bound to them."
                )
            self._known[key] = self._create(loss)
        return self._known[key]

    def _create(self, loss: Loss) -> Any:
        raise NotImplementedError

    def _compute(self, loss_of: Loss, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor], tuple[Tensor, ...]]:
        loss, figures = loss_of(batch)
        gradients = torch.autograd.grad(loss, self._flat.parameters, allow_unused=True, materialize_grads=True)
        return loss.detach(), figures, gradients


class CapturedLoss(GraphedLoss):
    """Losses that a GPU replays as CUDA graphs, see `CudaGraphs`; a graph also writes the gradient into `flat`.

    There is a graph for each value that a loss reads from its object. Updates are replayed too.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._updates = CudaGraphs()

    def _create(self, loss: Loss) -> Callable[[dict[str, Any]], dict[str, Tensor]]:
        graphs = CudaGraphs(*bound_values(loss))
        return partial(graphs.run, partial(self._write_gradient, loss))

    def _write_gradient(self, loss_of: Loss, batch: dict[str, Any]) -> dict[str, Tensor]:
        loss, figures, gradients = self._compute(loss_of, batch)
        torch._foreach_copy_(self._flat.gradients, gradients)
        self._flat.flag.copy_(loss * 0)
        return {**figures, "": loss}

    def gradient(self, loss_of: Loss, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        self._check.finish()  # a message about the last step describes the gradient, which is replaced now
        figures = copies(self._find(loss_of)(batch))
        loss, figures = checked_output((figures.pop(""), figures), loss_of, has_gradient=False)
        self._check.begin(batch, figures, loss)
        self._average()
        return loss, figures

    def update(self, update: Callable[[], Tensor], optimizers: Collection[torch.optim.Optimizer]) -> Tensor:
        """Return `update()`, by a CUDA graph while the optimizers' numbers, which are part of it, stay."""

        def captured(_: Any) -> Tensor:
            with capturable(optimizers):
                return update()

        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        numbers = (value for group in groups for name, value in group.items() if name != "params")
        return self._updates.run(captured, {}, key=(*map(id, groups), *numbers)).clone()

    def forget(self) -> None:
        self._known.clear()
        self._updates.forget()


class CompiledLoss(GraphedLoss):
    """Losses compiled by torch.compile. Results differ from eager ones by rounding.

    The first batch compiles a loss, which takes 10 to 30 seconds and needs a C++ compiler. A batch of a second size
    compiles once more, for batches of any size; so does a value that the loss reads from its object, when it changes.
    Torch keeps the result on disk, and the next run starts faster.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        torch._dynamo.config.trace_autograd_ops = True  # otherwise backward is a separate graph
        torch._dynamo.config.allow_rnn = True  # otherwise it refuses to see torch's LSTM, even to read its weights

    def _create(self, loss: Loss) -> tuple[Any, set[torch.Size]]:
        """Return the compiled function, and the sizes of the batches that it is compiled for."""
        alone: dict[str, Any] = {"isolate_recompiles": True}  # torch limits how often a function may be compiled
        return torch.compile(partial(self._compute, loss), fullgraph=True, options=OPTIONS, **alone), set()

    def gradient(self, loss_of: Loss, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Do what `Eager` does; raise `ConfigError` if torch cannot compile the loss."""
        graph, sizes = self._find(loss_of)
        size = next(tree_leaves(batch)).shape
        try:
            # Ctrl-C would reach the C++ compiler too, which leaves half a library in torch's cache.
            with nullcontext() if size in sizes else blocking_signals():
                loss, figures, gradients = graph(batch)
        except (torch._dynamo.exc.TorchDynamoException, torch._dynamo.exc.FailOnRecompileLimitHit) as error:
            cause = str(getattr(error, "inner_exception", error)).strip().splitlines()[0]
            if " " in torch.__file__:
                cause += f" (perhaps because of the space in '{torch.__file__}', which linkers refuse)."
            if isinstance(error, torch._dynamo.exc.FailOnRecompileLimitHit):
                cause = "it reads values that change all the time, such as a growing list, and each is compiled anew"
            raise ConfigError(
                f"policy.compile=True: torch.compile failed for {_name(loss_of)}: {cause.rstrip('.')}. Set "
                "policy.compile=False."
            ) from error
        sizes.add(size)
        loss, figures = checked_output((loss, figures), loss_of, has_gradient=False)
        self._begin(batch, figures, loss)
        torch._foreach_copy_(self._flat.gradients, gradients)
        self._average()
        return loss, figures


def _name(loss: Any) -> str:
    return _name(loss.func) if isinstance(loss, partial) else getattr(loss, "__qualname__", type(loss).__name__)

"""Computes losses and their gradients as graphs: compiled by torch.compile, or replayed on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ding_lite.gpu.cuda_graph import CudaGraphs, capturable
from ding_lite.gpu.reads import bound_values, freeze
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.torch_utils.gradient import EagerGradient, check_output, name_of
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


class GraphedGradient(EagerGradient):
    """Base class: forward and backward pass of a loss become one function, without state in between, one for each loss.

    Two losses are the same if they are the same method, or the same function with the same values bound to it.
    """

    detaches = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._known: dict[Hashable, Any] = {}

    def _find(self, loss: Loss) -> Any:
        """Return what `_create` returned for this loss."""
        key = freeze(bound_values(loss))
        if key not in self._known:
            if len(self._known) == MOST_LOSSES:
                raise UserError(
                    f"{name_of(loss)} is loss number {MOST_LOSSES + 1} of one optimizer, and each becomes a graph: "
                    "pass the same methods in every step, not functions with new tensors or objects bound to them."
                )
            self._known[key] = self._create(loss)
        return self._known[key]

    def _create(self, loss: Loss) -> Any:
        raise NotImplementedError

    def _compute(self, loss_of: Loss, batch: Batch) -> tuple[Tensor, dict[str, Tensor], tuple[Tensor, ...]]:
        loss, figures = loss_of(batch)
        gradients = torch.autograd.grad(loss, self._flat.parameters, allow_unused=True, materialize_grads=True)
        return loss.detach(), figures, gradients


class CapturedGradient(GraphedGradient):
    """Losses that a GPU replays as CUDA graphs, see `CudaGraphs`; a graph also writes the gradient into `flat`.

    There is a graph for each value that a loss reads from its object. Updates are replayed too.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._updates = CudaGraphs()

    def _create(self, loss: Loss) -> Callable[[dict[str, Any]], dict[str, Tensor]]:
        graphs = CudaGraphs(*bound_values(loss))
        return partial(graphs.run, partial(self._write_gradient, loss))

    def _write_gradient(self, loss_of: Loss, batch: Batch) -> dict[str, Tensor]:
        def checked(batch: Batch) -> tuple[Tensor, Figures]:
            return check_output(loss_of(batch), loss_of, has_gradient=True)

        loss, figures, gradients = self._compute(checked, batch)
        torch._foreach_copy_(self._flat.gradients, gradients)
        self._flat.flag.copy_(loss * 0)
        return {**figures, "": loss}

    def function(self, loss_of: Loss) -> Loss:
        """Return a function that writes the gradient too."""
        return partial(self._replay, self._find(loss_of))

    def _replay(self, graph: Callable[[dict[str, Any]], dict[str, Tensor]], batch: Batch) -> tuple[Tensor, Figures]:
        self._check.finish()  # a message about the last step describes the gradient, which is replaced now
        self._flat.check()  # a graph would go on with parameters that were replaced
        figures = graph(batch)
        copies = torch._foreach_mul(list(figures.values()), 1)  # by few kernels; the next replay overwrites the output
        figures = dict(zip(figures, copies, strict=True))
        return figures.pop(""), figures

    def compute(self, loss: Tensor, weight: float) -> None:
        """Average the gradient, which is there already."""
        self._average(weight)

    def update(self, update: Callable[[], Tensor], optimizers: Collection[torch.optim.Optimizer]) -> Tensor:
        """Return the result of `update`, by a CUDA graph while the optimizers' numbers, which are part of it, stay."""

        def capturable_update(inputs: Any) -> Tensor:
            with capturable(optimizers):
                return update()

        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        numbers = (value for group in groups for name, value in group.items() if name != "params")
        return self._updates.run(capturable_update, {}, key=(*map(id, groups), *numbers)).clone()


class CompiledGradient(GraphedGradient):
    """Losses compiled by torch.compile. Results differ from eager ones by rounding.

    The first batch compiles a loss, which takes 10 to 30 seconds and needs a C++ compiler. A batch of a second size
    compiles once more, for batches of any size; so does a value that the loss reads from its object, when it changes.
    Torch keeps the result on disk, and the next run starts faster.
    """

    _gradients: tuple[Tensor, ...] = ()

    def _create(self, loss: Loss) -> tuple[Any, set[torch.Size]]:
        """Return the compiled function, and the sizes of the batches that it is compiled for."""
        torch._dynamo.config.trace_autograd_ops = True  # otherwise backward is a separate graph
        torch._dynamo.config.allow_rnn = True  # otherwise it refuses to see torch's LSTM, even to read its weights
        alone: dict[str, Any] = {"isolate_recompiles": True}  # torch limits how often a function may be compiled
        return torch.compile(partial(self._compute, loss), fullgraph=True, options=OPTIONS, **alone), set()

    def function(self, loss_of: Loss) -> Loss:
        """Return a function that computes the gradient too; it raises `ConfigError` if torch cannot compile it."""
        return partial(self._run, loss_of)

    def _run(self, loss_of: Loss, batch: Batch) -> tuple[Tensor, Figures]:
        graph, sizes = self._find(loss_of)
        size = next(tree_leaves(batch)).shape
        try:
            # Ctrl-C would reach the C++ compiler too, which leaves half a library in torch's cache.
            with nullcontext() if size in sizes else blocking_signals():
                loss, figures, self._gradients = graph(batch)
        except (torch._dynamo.exc.TorchDynamoException, torch._dynamo.exc.FailOnRecompileLimitHit) as error:
            cause = str(getattr(error, "inner_exception", error)).strip().splitlines()[0]
            if " " in torch.__file__:
                cause += f" (perhaps because of the space in '{torch.__file__}', which linkers refuse)."
            if isinstance(error, torch._dynamo.exc.FailOnRecompileLimitHit):
                cause = "it reads values that change all the time, such as a growing list, and each is compiled anew"
            raise ConfigError(
                f"policy.compile=True: torch.compile failed for {name_of(loss_of)}: {cause.rstrip('.')}. Set "
                "policy.compile=False."
            ) from error
        sizes.add(size)
        return loss, figures

    def compute(self, loss: Tensor, weight: float) -> None:
        """Write the gradient that `function` has computed, and average it."""
        self._reset()
        torch._foreach_copy_(self._flat.gradients, self._gradients)
        self._gradients = ()
        self._average(weight)

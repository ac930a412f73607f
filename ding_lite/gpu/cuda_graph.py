"""Replays work on a GPU as CUDA graphs: the host launches a whole graph at once instead of kernel after kernel.

The step of a small network consists of hundreds of kernels, and launching one takes longer than computing it.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ding_lite.gpu.reads import Reads
from ding_lite.utils.tree import tree_leaves, tree_map

WARM_UP = 2  # calls before a graph is captured, in which libraries choose their kernels and allocate memory
MOST = 16  # graphs of one function, which each keep their memory, and changes of what it reads; then it is only called


class _Recording(NamedTuple):
    """A captured call."""

    graph: torch.cuda.CUDAGraph
    inputs: list[tuple[list[int], list[Tensor]]]  # for each dtype the numbers of its leaves, and what a replay reads
    output: Any  # a replay overwrites it


class CudaGraphs:
    """The graphs of one function, by the shapes of its inputs, and by the values that it reads from objects.

    A replay does not run the function's Python code. So what the function does may depend only on its inputs, on the
    key, on what it reads from the owners, and on tensors that stay where they are, such as parameters. A function that
    waits for the GPU, for instance to decide by a value that it computed, cannot be captured, and is called every time.

    Args:
        owners: objects from which the function reads values that may change, see `Reads`.
    """

    def __init__(self, *owners: Any) -> None:
        self._reads = Reads(*owners)
        self._recordings: dict[Hashable, _Recording] = {}
        self._newest_key: tuple[Hashable, ...] = (None, ())
        self._calls = 0  # one after the other with this key
        self._changes = 0  # times that a value which the function reads has changed
        self._waits = False  # the function waits for the GPU

    def run(self, function: Callable[[Any], Any], inputs: Any, key: Hashable = None) -> Any:
        """Return `function(inputs)`, whose tensors the next call overwrites.

        From the third call with the same key and shapes on, a graph computes it.

        Args:
            function: the same function in all calls with the same key. It may be called twice.
            inputs: nested dict of tensors on the GPU.
            key: everything besides the inputs on which the function depends.
        """
        if self._waits:
            return function(inputs)
        leaves = list(tree_leaves(inputs))
        key = key, *((leaf.dtype, leaf.shape, leaf.stride()) for leaf in leaves)
        whole = key, self._reads.values()
        recording = self._recordings.get(whole)
        if recording is None:
            self._changes += whole[1] != self._newest_key[1]
            if len(self._recordings) == MOST or self._changes > MOST:
                return function(inputs)
            self._calls = self._calls + 1 if whole == self._newest_key else 1
            if self._calls < WARM_UP:
                output = self._reads.watch(function, inputs)
                self._newest_key = key, self._reads.values()  # it may read more than was known
                return output
            if self._calls == WARM_UP:
                return self._try(function, inputs)
            recording = self._recordings[whole] = _record(function, inputs)
        for numbers, own in recording.inputs:
            torch._foreach_copy_(own, [leaves[number] for number in numbers])
        recording.graph.replay()
        return recording.output

    def replayed(self, network: nn.Module) -> Callable[..., Any]:
        """Return a function like a network; tensors in its keyword arguments are inputs too, see `run`."""

        def forward(obs: Any, **kwargs: Any) -> Any:
            tensors = {key: value for key, value in kwargs.items() if isinstance(value, Tensor | dict)}
            others = {key: value for key, value in kwargs.items() if key not in tensors}
            key = id(network), network.training, *others.items()
            inputs = {"obs": obs, "tensors": tensors}
            output = self.run(lambda inputs: network(inputs["obs"], **inputs["tensors"], **others), inputs, key)
            return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, output)

        return forward

    def _try(self, function: Callable[[Any], Any], inputs: Any) -> Any:
        """Call the function, and find out whether it waits for the GPU; an attempt to capture it would do harm."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Synchronization debug mode")
            torch.cuda.set_sync_debug_mode("error")
        try:
            return function(inputs)
        except RuntimeError as error:
            if "synchroniz" not in str(error):
                raise
            self._waits = True
        finally:
            torch.cuda.set_sync_debug_mode("default")
        return function(inputs)

    def forget(self) -> None:
        """Forget all graphs, because tensors that the function uses were replaced."""
        self._recordings.clear()


def _record(function: Callable[[Any], Any], inputs: Any) -> _Recording:
    own, collects = tree_map(torch.empty_like, inputs), gc.isenabled()
    graph = torch.cuda.CUDAGraph()
    gc.disable()  # no older graph may be freed meanwhile: CUDA would end the process
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # other threads may use the GPU
            output = function(own)
    finally:
        if collects:
            gc.enable()
    of_dtype: dict[torch.dtype, tuple[list[int], list[Tensor]]] = {}
    for number, leaf in enumerate(tree_leaves(own)):
        numbers, tensors = of_dtype.setdefault(leaf.dtype, ([], []))
        numbers.append(number)
        tensors.append(leaf)
    return _Recording(graph, list(of_dtype.values()), output)


@contextmanager
def capturable(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[None]:
    """Inside this block, torch lets a graph capture steps of these optimizers; outside a capture it would warn."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups if "capturable" in group]
    captures = torch.cuda.is_current_stream_capturing()
    for group in groups:
        group["capturable"] = captures
    try:
        yield
    finally:
        for group in groups:
            group["capturable"] = False

"""A function of several policies, and its gradient, as one program: each policy is a row of the program's tensors.

Shapes: K policies.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vmap

from ding_lite.together.recording import record
from ding_lite.together.rows import Rows
from ding_lite.together.values import NotJointError, SharedReads
from ding_lite.utils.tree import tree_leaves, tree_map

# What stands in torch's messages, and what to say instead.
CAUSES = {
    ".item()": "what it does depends on the values of tensors",
    "requires_grad_()": "it computes a gradient inside",
}
MOST = 8  # programs of one function, with other constants


class JointFunction:
    """A function that each policy of a family has, computed for all of them at once.

    `torch.func.vmap` records what the function does as a program of tensors with a row for each policy, which is then
    replayed. The function may depend on its inputs, on networks, and on what `SharedReads` finds.

    Args:
        rows: the policies.
        trained: names of the parameters to differentiate by; the function then returns a loss and figures. Empty: it
            returns any tree of tensors.
    """

    def __init__(self, rows: Rows, trained: Sequence[str] = ()) -> None:
        self._rows, self._trained = rows, trained
        self._reads = SharedReads(rows.policies, rows.known)
        self._watched: set[int] = set()  # rows
        self._programs: dict[Hashable, tuple[Callable[..., Any], list[bool], Callable[..., Any]]] = {}

    def __call__(
        self, functions: Sequence[Callable[[Any], Any]], inputs: Sequence[Any], rows: Sequence[int]
    ) -> tuple[list[Any], list[Tensor]]:
        """Return the outputs for the policies in some rows, in their order, and gradients `[K, ...]`.

        Gradients of other rows have no meaning.

        Raises:
            NotJointError: the function cannot be computed for several policies at once.
        """
        if not self._watched.issuperset(rows):
            self._watch(functions, inputs, rows)
        flat = [list(tree_leaves(each)) for each in inputs]
        numbers = [self._joined([self._tensor(value) for value in values], rows) for values in self._reads.read(rows)]
        leaves = [self._joined(leaf_K, rows) for leaf_K in zip(*flat, strict=True)]
        given = [*self._rows.tensors.values(), *numbers, *(leaf for leaf in leaves if isinstance(leaf, Tensor))]
        key = self._reads.constants, len(numbers)
        if key not in self._programs:
            if len(self._programs) == MOST:
                raise NotJointError("it reads values that change all the time")
            with self._rows.unchanged_buffers():
                self._programs[key] = self._record(functions[0], rows[0], given, len(numbers), inputs[0])
        program, used, rebuilt = self._programs[key]
        with torch.no_grad():
            results = program(*(leaf for leaf, is_used in zip(given, used, strict=True) if is_used))
        gradients, parts = results[: len(self._trained)], [part.unbind(0) for part in results[len(self._trained) :]]
        rows_of_parts = list(zip(*parts, strict=True))
        return [rebuilt(rows_of_parts[row]) for row in rows], gradients

    def _watch(self, functions: Sequence[Callable[[Any], Any]], inputs: Sequence[Any], rows: Sequence[int]) -> None:
        """Find out what the functions of some policies read."""
        with self._rows.unchanged_buffers():
            for row, function, each in zip(rows, functions, inputs, strict=True):
                self._reads.watch(row, function, each)
                self._watched.add(row)

    def _tensor(self, value: Any) -> Tensor:
        return value if isinstance(value, Tensor) else torch.tensor(value, dtype=self._rows.dtype)

    def _joined(self, leaves: Sequence[Any], rows: Sequence[int]) -> Any:
        """Return what each policy gets as one tensor `[K, ...]`; those that take no part get what the first one gets.

        What is no tensor must be the same for all.
        """
        if not isinstance(leaves[0], Tensor):
            return leaves[0]
        if len(rows) < len(self._rows.policies):
            of_row = dict(zip(rows, leaves, strict=True))
            leaves = [of_row.get(row, leaves[0]) for row in range(len(self._rows.policies))]
        return torch.stack([*leaves])

    def _record(
        self, function: Callable[[Any], Any], row: int, given: list[Tensor], num_numbers: int, example: Any
    ) -> tuple[Callable[..., list[Tensor]], list[bool], Callable[[Sequence[Tensor]], Any]]:
        """Record the function of the policy in a row, with an example of its inputs.

        Returns:
            The program, which of the tensors that are given it takes, and what makes the output of its parts.
        """
        names, specs = list(self._rows.tensors), list[Any]()
        begin = len(names) + num_numbers

        def call(own: dict[str, Tensor], others: dict[str, Tensor], numbers: list[Tensor], tensors: Any) -> Any:
            rest = iter(tensors)
            inputs = tree_map(lambda leaf: next(rest) if isinstance(leaf, Tensor) else leaf, example)
            with self._reads.replaced(row, numbers), _replaced(self._rows.networks[row], own | others):
                output = function(inputs)
            if own:
                specs[:] = [list(output[1])]
                return output[0], [output[0].detach(), *output[1].values()]
            specs[:] = [output]
            leaves = list(tree_leaves(output))
            if not all(isinstance(leaf, Tensor) for leaf in leaves):
                raise TypeError("a network's output has other values than tensors")
            return leaves

        def joint(*flat: Tensor) -> list[Tensor]:
            tensors = dict(zip(names, flat, strict=False))
            own = {name: tensors.pop(name) for name in self._trained}
            compute: Any = grad_and_value(call, has_aux=True) if own else call
            output = vmap(compute, randomness="error")(own, tensors, list(flat[len(names) : begin]), list(flat[begin:]))
            gradients, output = (output[0], output[1][1]) if own else ({}, output)
            return [*(gradients[name] for name in self._trained), *output]

        try:
            with torch.no_grad():
                program, used = record(joint, [leaf.detach() for leaf in given])
        except (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
            raise NotJointError(_cause(error)) from error
        if self._trained:
            return program, used, lambda parts: (parts[0], dict(zip(specs[0], parts[1:], strict=True)))
        example = specs[0]
        if isinstance(example, dict) and all(isinstance(part, Tensor) for part in example.values()):
            return program, used, lambda parts: dict(zip(example, parts, strict=True))  # nested ones take longer
        return program, used, partial(_rebuilt, example)


def _cause(error: Exception) -> str:
    """Return in a line what cannot be recorded, and where."""
    hidden = tuple(f"{os.sep}{name}{os.sep}" for name in ("torch", "together"))
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if not any(part in frame.filename for part in hidden)]
    place = f" ({os.path.basename(places[-1].filename)}, line {places[-1].lineno}: {places[-1].line})" if places else ""
    text = str(error).strip().split(". ")[0].splitlines()[0]
    return next((cause for sign, cause in CAUSES.items() if sign in str(error)), text) + place


def _rebuilt(example: Any, parts: Sequence[Tensor]) -> Any:
    """Return a tree like another one, with other leaves."""
    rest = iter(parts)
    return tree_map(lambda _: next(rest), example)


@contextmanager
def _replaced(networks: nn.Module, tensors: dict[str, Tensor]) -> Iterator[None]:
    """Return a context manager in which networks have other tensors as parameters and buffers.

    Unlike `torch.func.functional_call` it allows a network to be a part of several others.
    """
    members = dict([*networks.named_parameters(), *networks.named_buffers()])
    new = {id(member): tensors[name] for name, member in members.items()}
    dicts: list[dict[str, Any]] = [each for part in networks.modules() for each in (part._parameters, part._buffers)]
    places = [(of_module, name, tensor) for of_module in dicts for name, tensor in of_module.items()]
    try:
        for of_module, name, tensor in places:
            of_module[name] = new.get(id(tensor))
        yield
    finally:
        for of_module, name, tensor in places:
            of_module[name] = tensor

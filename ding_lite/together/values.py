"""What a function of several policies reads from them besides its inputs: numbers and tensors, one for each policy."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from torch import Tensor

from ding_lite.gpu.reads import VALUES, Reads
from ding_lite.policy import Policy


class NotJointError(Exception):
    """A function cannot be computed for several policies at once; the text is the reason."""


class SharedReads:
    """The values that one function reads from each of several policies, see `Reads`.

    Tensors, and numbers that differ between the policies or have changed, are inputs of the function. All other values
    are constants, and must be the same in all policies.

    Args:
        policies: the policies, of one class.
        known: ids of the tensors that are inputs already: those of networks.

    Attributes:
        constants: what the constants are now; equal as long as a program that contains them is right.
    """

    def __init__(self, policies: Sequence[Policy], known: set[int]) -> None:
        self._reads = [Reads(policy, *policy._modules) for policy in policies]
        self._known = known
        self._last: list[list[Any]] = [[] for _ in policies]  # what was found at the last look
        self._containers: list[int] = []  # places whose values may change although they stay the same objects
        self._inputs: dict[int, None] = {}  # the places whose values are inputs, in order
        self.constants: tuple[Hashable, ...] = ()

    def watch(self, row: int, function: Callable[[Any], Any], inputs: Any) -> Any:
        """Return `function(inputs)` of the policy in a row, and learn what it reads."""
        return self._reads[row].watch(function, inputs)

    def read(self, rows: Sequence[int]) -> list[list[Any]]:
        """Look at the values of some policies; return those of each input, one from each policy.

        Raises:
            NotJointError: a value that must be the same is not.
        """
        found = [self._reads[row].found() for row in rows]
        known = [self._last[row] for row in rows]
        if not all(map(_same, found, known)) or any(
            constant(each[place]) != self.constants[place] for each in found for place in self._containers
        ):
            for row, each in zip(rows, found, strict=True):
                self._last[row] = each
            self._compare(found)
        return [[each[place] for each in found] for place in self._inputs]

    def _compare(self, found: list[list[Any]]) -> None:
        """Decide which places are inputs, and take the values of the others as constants."""
        if any(len(each) != len(found[0]) for each in found):
            raise NotJointError("it reads other things from one policy than from another")
        constants: list[Hashable] = []
        self._containers = [place for place, value in enumerate(found[0]) if is_container(value)]
        for place, values in enumerate(zip(*found, strict=True)):
            own = list(map(constant, values))
            before = self.constants[place] if self.constants else own[0]
            is_input = isinstance(values[0], Tensor) and id(values[0]) not in self._known
            if is_input or (isinstance(values[0], float) and any(each != before for each in own)):
                self._inputs |= {place: None}
            elif any(each != own[0] for each in own):
                raise NotJointError(f"'{self._reads[0].places[place][1]}' is not the same in all of them")
            constants.append(None if place in self._inputs else own[0])
        self.constants = tuple(constants)

    @contextmanager
    def replaced(self, row: int, values: Sequence[Tensor]) -> Iterator[None]:
        """Return a context manager in which the policy in a row has these inputs."""
        places = [self._reads[row].places[place] for place in self._inputs]
        before = [attributes[name] for attributes, name in places]
        try:
            for (attributes, name), value in zip(places, values, strict=True):
                attributes[name] = value
            yield
        finally:
            for (attributes, name), value in zip(places, before, strict=True):
                attributes[name] = value


def _same(found: list[Any], known: list[Any]) -> bool:
    return len(found) == len(known) and all(map(operator.is_, found, known))


def constant(value: Any) -> Any:
    """Return something that is equal for values with which a function does the same."""
    if isinstance(value, (*VALUES, type)):
        return value
    if isinstance(value, FunctionType):
        return value.__code__
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    if is_container(value):
        items = value.items() if isinstance(value, dict) else value
        return tuple(map(constant, items))
    return type(value)


def is_container(value: Any) -> bool:
    """Return whether a value is a list or another plain collection of values."""
    return isinstance(value, list | tuple | set) or type(value) is dict

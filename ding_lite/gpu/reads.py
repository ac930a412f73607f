"""Finds what a function reads besides its inputs: a CUDA graph of the function contains these values as constants."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Hashable
from functools import partial
from types import CodeType, FrameType
from typing import Any

from torch import Tensor, nn

from ding_lite.torch_utils.networks import CLOSED

VALUES = (int, float, str, bytes, type(None))
CHANGING = (Tensor, list, tuple, set)  # what may change although it stays the same object; a plain dict, too
MISSING = object()


class Reads:
    """The values that functions read from objects: numbers, strings, None, lists of these, and places of tensors.

    A function that `watch` calls may read every attribute, and every key of a config, whose name is in the Python code
    that it runs. They are looked up in the owners, in the objects that these have under such names, and in all modules
    of networks. Variables of Python modules are not noticed.

    Args:
        owners: the objects. Those of torch, numpy and Python itself have nothing to read, except networks.

    Attributes:
        places: the attributes of an object, and the name in them, of each value that may be read, also of unset ones.
    """

    def __init__(self, *owners: Any) -> None:
        self._owners = owners
        self._codes: set[CodeType] = set()
        self._searched: dict[int, Any] = {}  # objects by id; they are kept, so that an id is never that of a later one
        self.places: list[tuple[dict[str, Any], str]] = []
        self._found: list[Any] = []  # the values there at the last look
        self._frozen: tuple[Hashable, ...] = ()
        self._inside = False  # whether one of them may change inside

    def watch(self, function: Callable[[Any], Any], inputs: Any) -> Any:
        """Return `function(inputs)`, and learn what it may read."""
        if not self._owners:
            return function(inputs)
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            return function(inputs)
        finally:
            sys.setprofile(before)
            self._search()

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").partition(".")[0] not in CLOSED:
            self._codes.add(frame.f_code)

    def _search(self) -> None:
        texts = (text for code in self._codes for text in (*code.co_names, *code.co_consts))
        names = {text for text in texts if isinstance(text, str) and not text.startswith("__")}
        found, self._searched, self.places = list(self._owners), {}, []
        while found:
            owner = found.pop()
            is_network = isinstance(owner, nn.Module)
            closed = not is_network and type(owner).__module__.partition(".")[0] in CLOSED
            if id(owner) in self._searched or closed:
                continue
            self._searched[id(owner)] = owner
            own = getattr(owner, "__dict__", {})
            inherited = (item for cls in type(owner).__mro__ for item in vars(cls).items())
            defaults = {name for name, value in inherited if isinstance(value, (*VALUES, list, tuple, dict))}
            self.places += [(own, name) for name in sorted(names & (own.keys() | defaults))]
            found += [own[name] for name in sorted(names & own.keys())]
            if is_network:
                self.places += [(owner._buffers, name) for name in sorted(names & owner._buffers.keys())]
                found += owner.children()

    def found(self) -> list[Any]:
        """Return the objects that the functions watched so far would find now; `MISSING` where there is none."""
        return [attributes.get(name, MISSING) for attributes, name in self.places]

    def values(self) -> tuple[Hashable, ...]:
        """Return what the functions watched so far would read now."""
        found = self.found()
        same = len(found) == len(self._found) and all(map(operator.is_, found, self._found))
        if not same or self._inside:
            self._found, self._frozen = found, tuple(map(freeze, found))
            self._inside = any(isinstance(value, CHANGING) or type(value) is dict for value in found)
        return self._frozen


def bound_values(function: Any) -> list[Any]:
    """Return what a function consists of: its code, and its object, the arguments of a `partial`, its closure."""
    if isinstance(function, partial):
        return [*bound_values(function.func), *function.args, function.keywords]
    if inspect.ismethod(function):
        return [function.__func__.__code__, function.__self__]
    if inspect.isfunction(function):
        cells = (cell.cell_contents for cell in function.__closure__ or ())
        return [function.__code__, *cells, *(function.__defaults__ or ()), function.__kwdefaults__]
    return [function]


def freeze(value: Any) -> Hashable:
    """Return something that is equal as long as a graph that reads this value is right."""
    if isinstance(value, VALUES):
        return value
    if isinstance(value, Tensor):
        return value.data_ptr(), value.shape, value.stride()
    if isinstance(value, list | tuple | set):
        return tuple(map(freeze, value))
    if type(value) is dict:
        return tuple((key, freeze(each)) for key, each in value.items())
    return id(value)

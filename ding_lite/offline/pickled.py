"""Reads recordings that DI-engine has pickled, without running code that a pickle may contain.

A pickle names functions and calls them. Here it can name only those that build NumPy arrays, torch tensors and
containers, and each of these names stands for a function of this module, which checks its arguments. Nothing else of a
library is reachable: NumPy's own functions could be made to read memory at any address.

A recording is a list of transitions, dicts of `obs`, `action`, `reward`, `next_obs`, `done`; a list of episodes, each a
list of these; or trajectories, dicts of arrays, also under D4RL's names.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch

from ding_lite.offline.dataset import NAMES
from ding_lite.offline.files import DatasetError, flatten
from ding_lite.utils.tree import tree_map

NUMBERS = re.compile(r"[|<>=]?(b1|[iu][1248]|f[248])")
NEEDED = ("obs", "action", "reward")
DEPTH = 8  # levels of containers: episodes, transitions, parts of observations
COLUMNS = {other: name for name, others in NAMES.items() for other in others}


class RefusedError(Exception):
    """A pickle contains something that is not read."""


class _Function:
    """A function that a pickle may call. A pickle can set attributes of objects; of these it cannot."""

    __slots__ = ("_call",)
    _call: Callable[..., Any]

    def __init__(self, call: Callable[..., Any]) -> None:
        object.__setattr__(self, "_call", call)

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise RefusedError("it sets an attribute of a function")


class _Dtype:
    """A type of numbers, of which a pickle sets the byte order, or that of Python objects."""

    __slots__ = ("order", "text")

    def __init__(self, text: Any, *_: Any) -> None:
        if text not in ("O8", "O") and not (isinstance(text, str) and NUMBERS.fullmatch(text)):
            raise RefusedError(f"arrays of type {text!r:.40}")
        self.text, self.order = text.lstrip("|<>="), "="

    def __setstate__(self, state: Any) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise RefusedError("arrays of records")
        self.order = order

    @property
    def numpy(self) -> np.dtype[Any]:
        """The type of an array's numbers."""
        return np.dtype(f"{self.order.replace('|', '=')}{self.text}")


class _Array:
    """An array, of which a pickle sets the contents."""

    __slots__ = ("value",)

    def __init__(self, *_: Any, value: Any = ()) -> None:
        self.value = value

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        objects = dtype.text.startswith("O")
        self.value = data if objects else _from_bytes(data, dtype, shape, "F" if fortran else "C").value


def _from_bytes(data: Any, dtype: _Dtype, shape: Any, order: str = "C") -> _Array:
    numbers = np.frombuffer(data.encode("latin1") if isinstance(data, str) else bytes(data), dtype.numpy)
    return _Array(value=numbers.reshape(tuple(shape), order="F" if order == "F" else "C").copy())


def _to_storage(data: Any) -> _Array:
    """Return the numbers of a torch storage, which is a file of torch's: its own reader calls no function either."""
    try:
        storage = torch.load(io.BytesIO(bytes(data)), map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the bytes are
        raise RefusedError("a torch storage that is more than numbers") from error
    tensor = torch.tensor([], dtype=storage.dtype).set_(storage)
    return _Array(value=(tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy())


def _to_tensor(storage: _Array, offset: Any, size: Any, stride: Any, *_: Any) -> _Array:
    numbers, last = storage.value, offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if min([0, offset, *size, *stride]) < 0 or max(math.prod(size), last + 1 if 0 not in size else 0) > len(numbers):
        raise RefusedError("a tensor beyond its memory")
    index = np.full(tuple(size), offset)
    for dim, step in enumerate(stride):
        index = index + step * np.arange(size[dim]).reshape([-1 if i == dim else 1 for i in range(len(size))])
    return _Array(value=numbers[index])


FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("collections", "OrderedDict"): dict,
    **{(module, "bytes"): lambda: b"" for module in ("builtins", "__builtin__")},
    ("_codecs", "encode"): lambda text, encoding: text.encode("latin1"),  # of bytes, in old protocols
    ("torch._utils", "_rebuild_tensor_v2"): _to_tensor,
    ("torch.storage", "_load_from_bytes"): _to_storage,
}
for _core in ("numpy.core", "numpy._core"):
    FUNCTIONS[f"{_core}.multiarray", "_reconstruct"] = _Array
    FUNCTIONS[f"{_core}.multiarray", "scalar"] = lambda dtype, data: _from_bytes(data, dtype, ())
    FUNCTIONS[f"{_core}.numeric", "_frombuffer"] = _from_bytes


class Unpickler(pickle.Unpickler):
    """Reads pickles of arrays, tensors, numbers, texts and containers."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in FUNCTIONS:
            raise RefusedError(f"{module}.{name}")
        return _Function(FUNCTIONS[module, name])


def read_pickle(path: str) -> dict[str, Any]:
    """Return the columns `[R, ...]` of a pickled recording, for `write_columns`.

    Raises:
        DatasetError: the file cannot be read, contains something else than arrays, numbers and containers, or its
            contents are not a recording.
    """
    try:
        with open(path, "rb") as file:
            if file.read(2) == b"PK":
                raise RefusedError("an archive, as torch.save writes it")
            file.seek(0)
            columns = _to_columns(_plain(Unpickler(file).load(), {}))
        if wrong := [name for name, part in flatten(columns) if part.dtype.kind not in "biufc"]:
            raise ValueError(f"'{wrong[0]}' contains other things than numbers")
        return columns
    except OSError as error:
        raise DatasetError(f"Cannot read '{path}': {error.strerror or error}.") from error
    except RefusedError as error:
        raise DatasetError(
            f"'{path}' contains {error}, but only NumPy arrays, torch tensors, numbers, lists and dicts are read from "
            "a pickle: save its columns with numpy.savez instead."
        ) from error
    except (pickle.UnpicklingError, EOFError, MemoryError) as error:
        raise DatasetError(
            f"'{path}' cannot be read as a pickle: {str(error)[:200].rstrip('.') or type(error).__name__}."
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RuntimeError) as error:
        raise DatasetError(f"'{path}' is no recording of DI-engine's: {str(error)[:200]}.") from error


def _plain(value: Any, seen: dict[int, Any], depth: int = 0) -> Any:
    """Return containers with the arrays that stand for `_Array`; each container once, however often it occurs."""
    if isinstance(value, _Array):
        value = value.value
    if isinstance(value, list | tuple | dict):
        if depth > DEPTH:
            raise RefusedError(f"more than {DEPTH} levels of containers")
        if id(value) not in seen:
            if isinstance(value, dict):
                if not all(isinstance(key, str) and re.fullmatch(r"\w[\w.-]*", key) for key in value):
                    raise RefusedError("keys that are no names")  # they may become the names of files
                seen[id(value)] = {key: _plain(item, seen, depth + 1) for key, item in value.items()}
            else:
                seen[id(value)] = [_plain(item, seen, depth + 1) for item in value]
        return seen[id(value)]
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.ndarray):
        return value
    raise RefusedError(f"an object of type {type(value).__name__}")


def _to_columns(found: Any) -> dict[str, Any]:
    trajectories = found if isinstance(found, list) else [found]
    if not trajectories:
        raise ValueError("it is empty")
    if all(isinstance(one, dict) and np.ndim(_get(one, "reward")) == 0 for one in trajectories):
        return _stack(trajectories)
    parts = [_stack(one) if isinstance(one, list) else _rename(one) for one in trajectories]
    for part in parts:
        part.setdefault("traj_flag", np.arange(len(part["reward"])) == len(part["reward"]) - 1)
        part.setdefault("done", np.zeros(len(part["reward"]), dtype=bool))  # how the episode ended is unknown
    return _join_columns(parts)


def _get(transition: dict[str, Any], name: str) -> Any:
    value = _rename(transition)[name]
    return value.reshape(()) if isinstance(value, np.ndarray) and value.size == 1 else value


def _rename(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a recording under our names."""
    if not isinstance(columns, dict):
        raise TypeError(f"expected dicts of {', '.join(NEEDED)}, got {type(columns).__name__}")
    named = {COLUMNS.get(name, name): value for name, value in columns.items() if value is not None}
    if missing := [name for name in NEEDED if name not in named]:
        raise ValueError(f"expected dicts of {', '.join(NEEDED)}, one lacks '{missing[0]}'")
    return {name: named[name] for name in NAMES if name in named}


def _join_columns(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    names = [name for name in NAMES if any(name in part for part in parts)]
    if partial := [name for name in names if not all(name in part for part in parts)]:
        raise ValueError(f"only some of its dicts have '{partial[0]}'")
    chosen = [{name: part[name] for name in names} for part in parts]
    return tree_map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *chosen)


def _stack(transitions: Sequence[Any]) -> dict[str, Any]:
    """Return the columns of a list of transitions; rewards and ends have one number for each."""
    rows = [_rename(one) for one in transitions]
    columns = _join_columns([tree_map(lambda leaf: np.asarray(leaf)[None], row) for row in rows])
    for name in {"reward", "done", "traj_flag"}.intersection(columns):
        columns[name] = np.asarray(columns[name]).reshape(len(rows), -1)[:, 0]  # DI-engine's n-step rewards: the first
    action = columns.get("action")
    if isinstance(action, np.ndarray) and action.dtype.kind == "i" and action.shape[1:] == (1,):
        columns["action"] = action[:, 0]  # a label, which DI-engine records as a list of one
    return columns

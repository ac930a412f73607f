"""A module in memory that several processes of one machine map: one writes it, others read it whole."""

from __future__ import annotations

import copy
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import reduction
from typing import Any

import torch
from torch import Tensor, nn


class SharedModule:
    """Parameters and buffers of a module as last written, with a version, for processes that are forked or spawned.

    Reading and writing exclude each other by a lock of the kernel's on an unnamed file: whoever holds it when it is
    killed frees it, and nothing is left in the file system.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = copy.deepcopy(module).cpu().share_memory()
        self._version = torch.zeros((), dtype=torch.int64).share_memory_()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as this lives)

    @property
    def version(self) -> int:
        """How often it was written."""
        return int(self._version)

    def write(self, module: nn.Module) -> int:
        """Take the tensors of such a module, on any device; return the new version.

        Raises:
            ValueError: the module has other tensors.
        """
        with self._locked():
            _copy_tensors(module, self._module)
            self._version += 1
            return self.version

    def read(self, module: nn.Module, version: int = -1) -> int:
        """Copy the tensors into such a module if they are not those of `version`; return the version that it has now.

        Raises:
            ValueError: the module has other tensors.
        """
        if self.version == version:
            return version
        with self._locked():
            _copy_tensors(self._module, module)
            return self.version

    def create_copy(self) -> nn.Module:
        """Return such a module, in memory of its own."""
        module = copy.deepcopy(self._module)
        self.read(module)
        return module

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_file": reduction.DupFd(self._file.fileno())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"_file": os.fdopen(state["_file"].detach(), "w+b")})


def _tensors(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


@torch.no_grad()
def _copy_tensors(source: nn.Module, target: nn.Module) -> None:
    new, old = _tensors(source), _tensors(target)
    shapes, expected = ([tuple(tensor.shape) for tensor in tensors] for tensors in (new, old))
    if shapes != expected:
        raise ValueError(f"expected a module with tensors of shapes {expected}, got {shapes}")
    for tensor, value in zip(old, new, strict=True):
        tensor.copy_(value)

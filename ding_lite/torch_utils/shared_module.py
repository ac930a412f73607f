"""A module in memory that several processes of one machine share: one writes it, and others read whole versions."""

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
    """Holds the newest parameters and buffers of a module, with a version number, for forked or spawned processes.

    A kernel lock on an unnamed file prevents simultaneous reading and writing. The kernel releases the lock when a
    process is killed, and nothing remains in the file system.

    Args:
        module: the module to copy; it is not changed.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = copy.deepcopy(module).cpu().share_memory()
        self._version = torch.zeros((), dtype=torch.int64).share_memory_()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as this lives)

    @property
    def version(self) -> int:
        """The number of writes so far."""
        return int(self._version)

    def write(self, module: nn.Module) -> int:
        """Store the tensors of a module with the same structure, on any device; return the new version.

        Raises:
            ValueError: the module has other tensors.
        """
        with self._locked():
            _copy_tensors(module, self._module)
            self._version += 1
            return self.version

    def read(self, module: nn.Module, version: int = -1) -> int:
        """Copy the stored tensors into a module with the same structure.

        Args:
            module: the module to overwrite, on any device.
            version: the version that the module holds already; if it is still the newest, nothing is copied.

        Returns:
            The version that the module holds now.

        Raises:
            ValueError: the module has other tensors.
        """
        if self.version == version:
            return version
        with self._locked():
            _copy_tensors(self._module, module)
            return self.version

    def create_copy(self) -> nn.Module:
        """Return a copy of the module in memory of this process alone."""
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

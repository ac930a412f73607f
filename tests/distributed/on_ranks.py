"""Functions of test files that run on the ranks of a process group, and what each of them returned.

Ranks fail if they leave the group behind.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ding_lite.utils import DDPContext, get_rank
from tests.distributed.launcher import run_ranks


def call_on_ranks(
    function: Callable[..., Any], *args: Any, nproc: int = 2, timeout: float = 150, cwd: Path | str | None = None
) -> list[Any]:
    """Call a function of a module on every rank, in one thread; return the results by rank.

    Args:
        function: defined at the top of its module.
        args: its arguments, and what it returns, are pickled.
        nproc: number of ranks.
        timeout: seconds on a quiet machine.
        cwd: working directory of the ranks.
    """
    with tempfile.TemporaryDirectory() as folder:
        torch.save(args, Path(folder, "args.pt"))
        words = ["-m", "tests.distributed.call", __name__, "run", function.__module__, function.__qualname__, folder]
        run_ranks(words, nproc, timeout, cwd=cwd)
        return [torch.load(Path(folder, f"{rank}.pt"), weights_only=False) for rank in range(nproc)]


def run_checks(module: str) -> dict[str, str]:
    """Call each function `check_NAME` of a module; return what failed, by NAME."""
    failures = {}
    for name, check in vars(importlib.import_module(module)).items():
        if name.startswith("check_"):
            try:
                check()
            except Exception as error:  # reported by the test of that name
                failures[name.removeprefix("check_")] = f"{type(error).__name__}: {error}"
    return failures


def run(module: str, function: str, folder: str) -> None:
    args = torch.load(Path(folder, "args.pt"), weights_only=False)
    with DDPContext(timeout=60):
        result = getattr(importlib.import_module(module), function)(*args)
        torch.save(result, Path(folder, f"{get_rank()}.pt"))
    assert not dist.is_initialized()

"""Calls a function of a module: `python -m tests.distributed.call MODULE FUNCTION ARGUMENT ...`, all of them texts."""

from __future__ import annotations

import importlib
import sys


def call(module: str, function: str, *args: str) -> None:
    getattr(importlib.import_module(module), function)(*args)


if __name__ == "__main__":
    call(*(word for word in sys.argv[1:] if not word.startswith("--local-rank")))  # torch.distributed.launch adds it

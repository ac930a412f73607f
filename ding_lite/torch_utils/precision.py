"""The number type of forward and backward passes: float32, or bfloat16 where the machine multiplies in it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def multiplies_bf16(device: torch.device) -> bool:
    """Return whether a device has instructions for bfloat16; without them, float32 is faster."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))  # the last is ARM's


def find_precision(wanted: str, device: torch.device) -> str:
    """Return 'float32' or 'bf16' for a value of `policy.precision`; 'auto' is bf16 where it exists."""
    if wanted != "auto":
        return wanted
    return "bf16" if multiplies_bf16(device) else "float32"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Return a context manager in which forward passes have a precision that `find_precision` returned.

    On a GPU it keeps no converted weights, which a replayed graph would not convert again.
    """
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=device.type == "cpu")

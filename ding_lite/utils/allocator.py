"""How this process's C library gives memory back."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
LARGEST_KEPT = 32 << 20  # bytes, glibc's upper bound for M_MMAP_THRESHOLD


def keep_freed_memory() -> None:
    """Let glibc reuse freed blocks of activations instead of handing them back to the system after every step.

    Otherwise each learner iteration maps and faults in the same pages again: a third of the time of a bf16 update on a
    CPU. The process keeps what its busiest step needed. Elsewhere than on glibc it does nothing.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
            libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)

"""Controls when the C library returns freed memory to the operating system."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
LARGEST_KEPT = 32 << 20  # bytes, glibc's upper bound for M_MMAP_THRESHOLD


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks, such as activations, instead of returning them to the system after every step.

    Otherwise each learner iteration maps the same pages again, which takes a third of the time of a bf16 update on a
    CPU. The cost is that the process keeps as much memory as its largest step needed. Without glibc, nothing happens.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
            libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)

"""Freed memory is reused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.distributed.launcher import ROOT

# Counts the pages that are faulted in while four blocks of 16 MB are allocated, written and freed 20 times.
CODE = """
import resource, sys
import numpy as np
from ding_lite.utils.allocator import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def blocks():
    return [np.ones(1 << 24, np.uint8) for _ in range(4)]
blocks()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    blocks()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    env = {"PYTHONPATH": str(ROOT), "NUMPY_MADVISE_HUGEPAGE": "0"}
    command = [sys.executable, "-c", CODE, how]
    return int(subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=300).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_blocks_are_not_mapped_anew() -> None:
    # four blocks are 16,384 pages of 4 KB each time
    given_back, kept = page_faults("given back"), page_faults("kept")
    assert kept <= given_back / 20

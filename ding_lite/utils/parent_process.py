"""Ends a process with its parent, however the parent ends."""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1  # option of Linux's prctl: the signal to receive when the parent ends


def end_with_parent(signum: int, parent: int) -> None:
    """Let the kernel send this process a signal when its parent ends, even if the parent is killed by SIGKILL.

    If the parent has ended already, this process ends immediately, without cleaning up. On systems other than Linux
    that is all that happens.

    To the kernel, the parent ends when the thread that started this process ends. That thread must therefore live as
    long as this process. An exec keeps the setting; processes that this one forks do not inherit it.

    Args:
        signum: the signal.
        parent: process id of the parent, which the parent itself asked for with `os.getpid()`.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:  # it ended before prctl was called
        os._exit(1)

"""Which process works on a trial, so that others notice when it is gone."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from ding_lite.utils.ranks.peers import process_space, process_state

SIGN_OF_LIFE = 60.0  # seconds between two signs of life of a trial's owner
ABANDONED = 300.0  # seconds without one, after which the owner is presumed dead


def identify() -> dict[str, Any]:
    """Return what identifies this process among those of all machines."""
    return {"host": socket.gethostname(), "machine": _machine(), "pid": os.getpid(), "started": _started(os.getpid())}


class Watch:
    """Finds owners that are dead.

    A process of this machine is looked up. Of other machines only signs of life are seen. Their clocks may differ from
    this one's, so what counts is for how long a sign has not changed.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Any, float]] = {}

    def is_dead(self, trial: int, owner: Mapping[str, Any], sign: Any) -> bool:
        """Return whether the owner of a running trial is gone.

        Args:
            trial: the trial's number.
            owner: what `identify` returned there; empty if it is unknown.
            sign: its latest sign of life.
        """
        if owner and owner["machine"] == _machine():
            return _started(owner["pid"]) != owner["started"]
        now = time.monotonic()
        before, since = self._seen.get(trial, (None, now))
        if sign != before:
            before, since = sign, now
        self._seen[trial] = (before, since)
        return now - since > ABANDONED


def _machine() -> str:
    """Return what two processes have in common if they see each other's process ids."""
    try:
        return process_space()
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """Return the start time of a process; empty if it has ended."""
    return process_state(pid)[1]

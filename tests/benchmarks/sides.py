"""Starts one side of a comparison in a process of its own and reads its JSON line."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.distributed.launcher import finish, launch, start

HERE = Path(__file__).resolve().parent
PEERS = {
    "sb3": "PEER_SB3_PYTHON",
    "di_engine": "PEER_DI_ENGINE_PYTHON",
    "rsl_rl": "PEER_RSL_RL_PYTHON",
    "skrl": "PEER_SKRL_PYTHON",
}
START_SECONDS = 240.0  # what a side gets for its start, its first evaluation and its warm-up
QUIET_CORES = 0.1  # other processes' load that a figure survives


class SideError(RuntimeError):
    """A side ended without a result."""


def peer_python(peer: str) -> str | None:
    """The interpreter that has the peer installed, as its environment variable says; None where it is not set."""
    python = os.environ.get(PEERS[peer])
    if python and not Path(python).exists():
        raise SystemExit(f"{PEERS[peer]}: expected the python of an environment with {peer}, got '{python}'.")
    return python or None


def run_side(side: str, arguments: list[str], seconds: float, ranks: int = 0, threads: int = 1) -> dict[str, Any]:
    """Run ``<side>.py`` or, for a peer, ``peer_<side>.py``, in an empty directory.

    Args:
        side: ``ours``, ``peak_memory``, ``batched`` or the name of a peer.
        arguments: Its command line, but for ``--result``.
        seconds: Length of what is measured, for the time-out.
        ranks: Start so many processes by torch's launcher; 0 for a plain process.
        threads: Of OpenMP in each process.
    """
    python = peer_python(side) if side in PEERS else sys.executable
    assert python is not None
    script = str(HERE / (f"peer_{side}.py" if side in PEERS else f"{side}.py"))
    # Peers must not find this project's packages before their own.
    env = {"OMP_NUM_THREADS": str(threads)} | ({"PYTHONPATH": ""} if side in PEERS else {})
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        words = [script, *arguments, "--result", str(result)]
        timeout = START_SECONDS + 2 * seconds
        try:
            if ranks:
                done = launch(words, nproc=ranks, timeout=timeout, env=env, cwd=folder, fresh=True)
            else:
                done = finish(start([python, *words], env=env, cwd=folder), timeout)
            said = (done.stdout + done.stderr, f"exit status {done.returncode}")
        except subprocess.TimeoutExpired as error:
            said = (str(error.stderr), f"no end within {timeout:.0f} s")
        if not result.exists():
            raise SideError(f"{side} gave no result ({said[1]}):\n{said[0][-2000:]}")
        return json.loads(result.read_text())


def spread(values: list[float]) -> str:
    """Median and range, for a table."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def load_note(results: list[dict[str, Any]]) -> str:
    """How many cores other processes kept busy meanwhile, at worst."""
    worst = max(result["other_cores"] for result in results)
    return f"{worst:.1f}" + (" DISTURBED" if worst > QUIET_CORES else "")

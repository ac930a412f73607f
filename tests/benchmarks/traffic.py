"""Bytes that a learning step sends between two machines, with one and two ranks on each.

    python -m tests.benchmarks.traffic [--steps 100]

The machines are network namespaces of this one, each with shared memory of its own. The model is Pong DQN's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from ding_lite.model import DQN
from ding_lite.utils.ranks import machine_group as groups
from ding_lite.utils.ranks.collectives import get_rank
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.flat_parameters import FlatParameters
from tests.distributed.launcher import clean_environment
from tests.survival.machines import ENCLOSE, PORT, build, obstacle


class Case(NamedTuple):
    """How many ranks each machine has, and whether those of one machine meet in memory."""

    nproc: int
    memory: bool


CASES = (Case(1, True), Case(2, True), Case(2, False))


def sent() -> int:
    """Return the bytes that this machine has sent over its cable so far."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return sum(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith("eth"))


def run_rank(file: str, steps: int, memory: bool) -> None:
    """Average a gradient `steps` times; write the bytes that a step sent from this machine."""
    if not memory:
        groups.create_memory = lambda length: None
    torch.set_num_threads(1)
    with DDPContext(timeout=60):
        model: nn.Module = DQN([4, 84, 84], 6, [32, 64, 64, 512], dueling=False, head_layer_num=0)
        flat = FlatParameters(model, share_memory=True)
        flat.average_grad()
        dist.barrier()
        before = sent()
        for _ in range(steps):
            flat.average_grad()
        dist.barrier()
        if get_rank() == 0:
            found = {"bytes": (sent() - before) / steps, "gradient": flat.gradient.nbytes}
            Path(file).write_text(json.dumps(found))


def measure(steps: int) -> None:
    """Measure all cases; only inside of `ENCLOSE`."""
    folder = Path(tempfile.gettempdir())
    machines = build(folder)
    print(
        "| ranks on each machine | of one machine meet in | bytes of a gradient | bytes that a machine sends a step |"
    )
    print("|---|---|---|---|")
    for case in CASES:
        for number, machine in enumerate(machines):
            meet = [f"--master_addr={machines[0].name}", f"--master_port={PORT}", f"--node_rank={number}"]
            launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--nproc_per_node={case.nproc}"]
            rank = ["-m", "tests.benchmarks.traffic", "--rank", str(folder / "found"), "--steps", str(steps)]
            words = [*launcher, *meet, *rank, *([] if case.memory else ["--messages"])]
            machine.boot(words, folder / f"{machine.name}.log")
        for machine in machines:
            while machine.status is None:
                time.sleep(0.1)
            assert machine.status == 0, (folder / f"{machine.name}.log").read_text()[-2000:]
        found = json.loads((folder / "found").read_text())
        where = "memory" if case.memory else "messages"
        print(f"| {case.nproc} | {where} | {found['gradient']:,} | {found['bytes']:,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rank", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--messages", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args, _ = parser.parse_known_args()
    if args.rank:
        run_rank(args.rank, args.steps, not args.messages)
    elif args.inside:
        measure(args.steps)
    elif reason := obstacle():
        sys.exit(reason)
    else:
        with tempfile.TemporaryDirectory() as folder:
            environment = clean_environment({"TMPDIR": folder})
            words = [sys.executable, "-m", "tests.benchmarks.traffic", "--inside", "--steps", str(args.steps)]
            sys.exit(subprocess.run([*ENCLOSE, *words], env={**os.environ, **environment}).returncode)


if __name__ == "__main__":
    main()

"""Everything that a few learning steps change, as a hash for each case of tests/algorithms.py.

    python -m tests.benchmarks.steps [--only POLICY ...]

A rebuild that changes no result prints the same lines before and after, on one machine. It takes a minute.
tests/benchmarks/hashes.py does whole runs.
"""

from __future__ import annotations

import argparse
import hashlib

import torch

from tests.algorithms import ALGORITHMS
from tests.distributed import parity
from tests.distributed.test_parity import PROBLEMS, leaves


def hash_of(case: str) -> str:
    """Return a hash of the networks, optimizers and statistics of a case after a phase of the parity test."""
    cfg = parity.compile_problem(*PROBLEMS[case])
    cfg.policy.learn.batch_size = 10**6
    (state,) = parity.learn(cfg, parity.collect_block(cfg), range(parity.NUM_ENVS))
    digest = hashlib.sha256()
    for path, leaf in leaves(state):
        digest.update(path.encode() + leaf.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def main() -> None:
    """Print a line for each case: its name, and a hash."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[*ALGORITHMS], choices=[*ALGORITHMS], metavar="POLICY")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    for case, (name, *_) in PROBLEMS.items():
        if name in only:
            print(f"{case:<28} {hash_of(case)}", flush=True)


if __name__ == "__main__":
    main()

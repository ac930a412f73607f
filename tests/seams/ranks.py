"""Trains a module of this package as a user would, by the pipeline, on one process or on two.

The ranks run this file as `python -m tests.seams.ranks NAME ITERATIONS OVERRIDES ...`, in a directory of the test's.
"""

from __future__ import annotations

import copy
import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import torch

from ding_lite.entry import serial_pipeline
from ding_lite.policy import Policy
from ding_lite.utils import (
    DDPContext,
    get_rank,
    get_world_size,
)
from tests.distributed.launcher import run_ranks, say

ME = ["-m", "tests.seams.ranks"]
# For tests: short evaluations at the beginning and at the end, and ranks that are compared often.
QUICK = (
    "exp_name=run",
    "env.collector_env_num=2",
    "env.evaluator_env_num=2",
    "env.n_evaluator_episode=2",
    "policy.eval.evaluator.eval_freq=1000000",
    "policy.learn.learner.hook.check_ranks_after_iter=10",
    "policy.learn.learner.hook.log_show_after_iter=10",
)


def pair_of(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the config pair of a module of this package."""
    module = importlib.import_module(f"tests.seams.{name}")
    return copy.deepcopy(module.main_config), copy.deepcopy(module.create_config)


def train(name: str, *overrides: str, max_train_iter: int) -> Policy:
    """Train on this process, or on all ranks of its group, in the working directory."""
    return serial_pipeline(pair_of(name), seed=0, max_train_iter=max_train_iter, overrides=overrides)


def train_on_two(name: str, folder: Path, *overrides: str, max_train_iter: int = 30) -> dict[str, Any]:
    """Train on two processes; return result.json.

    Raises:
        AssertionError: a rank failed, or the ranks' networks are not equal in every bit of parameters and buffers.
    """
    words = [name, str(max_train_iter), *QUICK, *overrides]
    done = run_ranks([*ME, *words], timeout=280, cwd=folder)
    assert done.returncode == 0, done.stderr
    checksums = dict(re.findall(r"^rank (\d) ended with (.*)$", done.stdout, re.M))
    assert set(checksums) == {"0", "1"}
    assert checksums["0"] == checksums["1"]
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["train_iter"] >= max_train_iter
    return result


def metrics(folder: Path, name: str = "run") -> list[dict[str, Any]]:
    """Return the records of a run of this name that ended in `folder`."""
    return [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]


def main(name: str, max_train_iter: str, *words: str) -> None:
    torch.set_num_threads(1)
    with DDPContext(timeout=120):
        assert get_world_size() == 2
        policy = train(name, *words, max_train_iter=int(max_train_iter))
        say(f"rank {get_rank()} ended with {policy.checksum()}")


if __name__ == "__main__":
    main(*sys.argv[1:])

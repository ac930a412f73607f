"""Runs a module of this package as a user would: trained by the pipeline, or stepped on given batches, on some ranks.

The ranks run this file as `python -m tests.seams.ranks WHAT ...`, in a directory of the test's.
"""

from __future__ import annotations

import copy
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.config import compile_config, set_shapes
from ding_lite.entry import serial_pipeline
from ding_lite.envs import check_env, create_vector_env, derive_seeds
from ding_lite.policy import Policy
from ding_lite.utils import (
    BUFFER_REGISTRY,
    MODEL_REGISTRY,
    POLICY_REGISTRY,
    DDPContext,
    get_rank,
    get_world_size,
    tree_map,
)
from ding_lite.worker import SampleCollector
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


# Training by the pipeline.


def train(name: str, *overrides: str, max_train_iter: int) -> Policy:
    """Train on this process, or on all ranks of its group, in the working directory."""
    return serial_pipeline(pair_of(name), seed=0, max_train_iter=max_train_iter, overrides=overrides)


def train_on_two(name: str, folder: Path, *overrides: str, max_train_iter: int = 30) -> dict[str, Any]:
    """Train on two processes; return result.json.

    Raises:
        AssertionError: a rank failed, or the ranks' networks are not equal in every bit of parameters and buffers.
    """
    words = ["train", name, str(max_train_iter), *QUICK, *overrides]
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


# Steps on given batches, in float64.


def build(name: str, *overrides: str) -> tuple[EasyDict, Any]:
    """Compile the config of a module of this package; return it, and its policy in float64, the same on every rank."""
    cfg = compile_config(pair_of(name), overrides=["policy.multi_gpu=True", *overrides])
    set_shapes(cfg, check_env(cfg.env))
    torch.manual_seed(0)
    policy_cls: Any = POLICY_REGISTRY.find(cfg.policy.type)
    options = {key: value for key, value in cfg.policy.model.items() if key != "type"}
    kind = cfg.policy.model.get("type") or policy_cls.default_model()[0]
    return cfg, policy_cls(cfg.policy, MODEL_REGISTRY.find(kind)(**options).double())


def sample_batches(name: str, number: int, size: int, *overrides: str) -> list[dict[str, Any]]:
    """Return batches from replay, in float64, of what the untrained policy has played."""
    cfg, policy = build(name, *overrides)
    n_env = cfg.env.collector_env_num
    env = create_vector_env(cfg.env, n_env, 0, True)
    collector = SampleCollector(env, policy, 64 * n_env, derive_seeds(0, "collect", n=n_env))
    samples, _ = collector.collect()
    env.close()
    options = {key: cfg.policy[key] for key in ("nstep", "unroll_len", "burnin_step") if key in cfg.policy}
    options |= {key: value for key, value in cfg.policy.other.replay_buffer.items() if key != "type"}
    buffer_cls: Any = BUFFER_REGISTRY.find(cfg.policy.other.replay_buffer.type)
    replay = buffer_cls(num_envs=n_env, gamma=cfg.policy.discount_factor, **options)
    replay.push(samples)
    return [tree_map(to_double, batch) for batch in replay.batches(size, number)]


def to_double(leaf: Tensor) -> Tensor:
    return leaf.double() if leaf.is_floating_point() else leaf


def halves(batch: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Cut a batch `[B, ...]` into two."""
    size = len(batch["index"]) // 2
    return tree_map(lambda leaf: leaf[:size], batch), tree_map(lambda leaf: leaf[size:], batch)


def learn(name: str, batches: list[dict[str, Any]], *overrides: str) -> dict[str, Any]:
    """Take a step on each batch; return everything that learning changed."""
    _, policy = build(name, *overrides)
    for batch in batches:
        policy.learn(batch)
    policy.finish()
    return policy.state_dict()


def check_two_step_as_one(name: str, folder: Path, *overrides: str, halves: Callable[..., Any] = halves) -> None:
    """Take three steps on the same batches with one process, and with two that have half of each batch.

    Args:
        name: of the module.
        folder: an empty directory.
        overrides: of its config.
        halves: cuts a batch into two.

    Raises:
        AssertionError: what learning changed differs by more than 1e-9, or between the ranks at all.
    """
    batches = sample_batches(name, 3, 32, *overrides)
    torch.save(list(zip(*map(halves, batches), strict=True)), folder / "parts.pt")
    done = run_ranks([*ME, "learn", name, *overrides], timeout=280, cwd=folder)
    assert done.returncode == 0, done.stderr
    alone = learn(name, batches, *overrides)
    first, second = (torch.load(folder / f"state{rank}.pt", weights_only=False) for rank in (0, 1))
    difference, path = largest_difference(alone, first)
    assert difference < 1e-9, f"{path} differs by {difference}"
    assert largest_difference(first, second)[0] == 0.0
    _, untrained = build(name, *overrides)
    assert largest_difference(untrained.state_dict()["model"], alone["model"])[0] > 1e-4


def largest_difference(left: Any, right: Any) -> tuple[float, str]:
    """Return by how much two states differ at most, and where."""
    pairs = zip(leaves(left), leaves(right), strict=True)
    return max((float((a - b).abs().max()) if a.numel() else 0.0, path) for (path, a), (_, b) in pairs)


def leaves(state: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield every number of a state, with its path."""
    if isinstance(state, (dict, list, tuple)):
        parts = state.items() if isinstance(state, dict) else enumerate(state)
        for key, value in parts:
            yield from leaves(value, f"{path}.{key}")
    elif state is not None:
        yield path, torch.as_tensor(state).double()


def main(what: str, name: str, *words: str) -> None:
    torch.set_num_threads(1)
    with DDPContext(timeout=120):
        assert get_world_size() == 2
        if what == "train":
            policy = train(name, *words[1:], max_train_iter=int(words[0]))
            say(f"rank {get_rank()} ended with {policy.checksum()}")
        else:
            batches = torch.load("parts.pt", weights_only=False)[get_rank()]
            torch.save(learn(name, batches, *words), f"state{get_rank()}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])

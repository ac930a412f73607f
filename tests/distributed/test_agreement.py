"""Ranks that were started with different configs: every one of them ends with what differs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ding_lite.run.setup import check_same_config
from ding_lite.utils import UserError, get_rank
from tests.distributed.launcher import finish, free_port, start_forked
from tests.distributed.on_ranks import call_on_ranks
from tests.run.helpers import CONFIG

SIZE = 3
CFG: dict[str, Any] = {
    "exp_name": "run",
    "seed": 0,
    "notes": [],
    "env": {"env_id": "CartPole-v0", "manager": {"type": "base", "num_threads": 4}},
    "policy": {"type": "dqn", "learn": {"batch_size": 32, "lr": 0.1}, "model": {}, "stop": None, "path": "x" * 200},
}


def many_keys(cfg: dict[str, Any], rank: int) -> None:
    """Another policy: ten more keys for rank 2, and other values."""
    if rank == 2:
        cfg["policy"].update({f"key_{i}": i for i in range(10)}, type="ppo", stop=1.0)


def own_machine(cfg: dict[str, Any], rank: int) -> None:
    """What a rank's machine decides, and what only rank 0's word counts for."""
    cfg["exp_name"] += f"_{rank}"
    cfg["notes"].append(rank)
    cfg["env"]["manager"]["num_threads"] += rank
    if rank == 1:  # it came back with `resume`, and read the shapes from the run's directory
        cfg["policy"]["learn"].update(resume_training=True, allow_lost_replay=False)
        cfg["policy"]["model"] = {"obs_shape": 4, "action_shape": 2}


def other_order(cfg: dict[str, Any], rank: int) -> None:
    if rank == 1:
        cfg["policy"] = dict(reversed(cfg["policy"].items()))


CHANGES: dict[str, Callable[[dict[str, Any], int], Any]] = {
    "none": lambda cfg, rank: None,
    "one value": lambda cfg, rank: cfg["policy"]["learn"].update(batch_size=64 if rank == 2 else 32),
    "a type": lambda cfg, rank: cfg["policy"]["learn"].update(batch_size=32.0 if rank else 32),
    "a section": lambda cfg, rank: cfg["policy"].update(model={} if rank else {"width": 8}),
    "a long value": lambda cfg, rank: cfg["policy"].update(path="x" * 200 + str(rank == 1)),
    "many keys": many_keys,
    "own machine": own_machine,
    "other order": other_order,
}


def compare_all() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, change in CHANGES.items():
        cfg = copy.deepcopy(CFG)
        change(cfg, get_rank())
        found[name] = message(cfg, max_env_step=100)
    found["a limit"] = message(CFG, max_env_step=100 + (get_rank() == 1), max_train_iter=7)
    found["no limit"] = message(CFG, **({} if get_rank() else {"max_env_step": 100}))
    return found


def message(cfg: dict[str, Any], **limits: int) -> str:
    before = copy.deepcopy(cfg)
    try:
        check_same_config(cfg, **limits)
    except UserError as error:
        return str(error)
    assert cfg == before
    return ""


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """What every rank was told, the same on each."""
    reports = call_on_ranks(compare_all, nproc=SIZE)
    assert all(report == reports[0] for report in reports)
    return reports[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("none", ""),
        ("own machine", ""),
        ("other order", ""),
        ("one value", "policy.learn.batch_size is 32 on ranks 0, 1, 64 on rank 2"),
        ("a type", "policy.learn.batch_size is 32 on rank 0, 32.0 on ranks 1, 2"),
        ("a section", "policy.model.width is 8 on rank 0, unset on ranks 1, 2"),
        ("a limit", "max_env_step is 100 on ranks 0, 2, 101 on rank 1"),
        ("no limit", "max_env_step is 100 on rank 0, unset on ranks 1, 2"),
    ],
)
def test_the_key_is_named_with_the_value_of_each_rank(found: dict[str, str], name: str, text: str) -> None:
    expected = f"Ranks disagree on the config: {text}. Start every rank with the same config file and options."
    assert found[name] == (expected if text else "")


def test_many_differences_are_counted_and_those_that_explain_others_come_first(found: dict[str, str]) -> None:
    text = found["many keys"].removeprefix("Ranks disagree on the config: ")
    listed = [part.split(" is ")[0] for part in text.split("; ")]
    assert listed[:4] == ["policy.type", "policy.stop", "policy.key_0", "policy.key_1"]
    assert listed[4].startswith("8 more.")  # 12 keys differ, 4 are listed


def pair(folder: Path, *words: str) -> list[Any]:
    """Start two ranks of the command line by hand; the second one gets `words` too."""
    port = str(free_port())
    shared = ["-m", "ding_lite", "-c", str(CONFIG), "policy.multi_gpu=True", "exp_name=run", "max_env_step=1e5"]
    return [
        start_forked(
            [*shared, *(words if rank else ())],
            {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
            cwd=folder,
        )
        for rank in range(2)
    ]


def test_a_run_ends_on_every_rank_before_anything_is_written(tmp_path: Path) -> None:
    differing = pair(tmp_path, "policy.learn.batch_size=32", "max_env_step=5e4")
    misspelt = pair(tmp_path, "policy.learn.bacth_size=32")
    first, second = (finish(process, timeout=150) for process in differing)
    assert (first.returncode, second.returncode) == (2, 2)
    (line,) = (first.stderr + second.stderr).splitlines()  # rank 0's: all ranks would say the same
    assert line.startswith("[rank 0] Ranks disagree on the config: max_env_step is 100000 on rank 0, 50000 on rank 1")
    assert "; policy.learn.batch_size is 64 on rank 0, 32 on rank 1." in line
    first, second = (finish(process, timeout=150) for process in misspelt)
    assert (first.returncode, second.returncode) == (1, 2)
    assert "failed: ConfigError: Unknown key 'policy.learn.bacth_size'" in first.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []

"""Learning from a data set on two real gloo processes, started by torch's launcher.

The ranks run this file as `python -m tests.distributed.test_offline WHAT`, in an empty directory.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ding_lite.utils import ConfigError, DDPContext, get_rank
from tests.distributed.launcher import finish, free_port, kill_marked, launch, run_ranks, start
from tests.entry.data_sets import record_cartpole, run_offline
from tests.policy.helpers import parameter_hash
from tests.survival.common import (
    checkpoints,
    differences,
    logged_iter,
    points,
    read_json,
    read_metrics,
    states,
    wait_until,
)

ME = ["-m", "tests.distributed.test_offline"]
ROWS = 601  # 300 for each rank, one is left out
EPOCHS = 40
PER_EPOCH = 10  # batches of 32 of a rank's 300 transitions, the last of 12
TOGETHER = ["policy.multi_gpu=True", "env.stop_value=None"]
LONG = [
    *TOGETHER, f"policy.learn.train_epoch={EPOCHS}", "policy.learn.learner.hook.save_ckpt_after_iter=30",
    "policy.eval.evaluator.eval_freq=110",
]  # fmt: skip
BAD: dict[str, tuple[dict[str, Any], str]] = {  # columns of a data set that cannot be learned from, and what is said
    "lacks": ({"action": None}, "lacks 'action'"),
    "range": ({"action": np.full(ROWS, 2)}, "key 'action': expected actions of Discrete(2), got 2 to 2"),
}


# What the ranks run.


def rank_learn() -> None:
    """Learn for three epochs; write what this rank ended with."""
    policy = run_offline(*TOGETHER, "policy.learn.train_epoch=3", seed=0, kind="discrete_cql")
    report: dict[str, Any] = {"hash": parameter_hash(policy.model), "errors": {}}
    for name in (*BAD, "differs", "gone"):
        os.chdir(f"{name}{get_rank()}")
        begin = time.monotonic()
        with pytest.raises(ConfigError) as error:
            run_offline(*TOGETHER)
        report["errors"][name] = str(error.value), time.monotonic() - begin
        os.chdir("..")
    Path(f"rank{get_rank()}.json").write_text(json.dumps(report))
    run_offline(*LONG, "exp_name=whole", seed=1, kind="discrete_cql")


def rank_train(*overrides: str) -> None:
    run_offline(*LONG, *overrides, seed=1, kind="discrete_cql")


# The tests.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two ranks learned, met bad data sets, and left the run `whole`."""
    path = tmp_path_factory.mktemp("offline")
    record_cartpole(path / "data.npz", rows=ROWS)
    columns: dict[str, Any] = dict(np.load(path / "data.npz"))
    bad: dict[str, Any] = {name: (columns | changes, columns | changes) for name, (changes, _) in BAD.items()}
    bad["differs"] = (columns, {key: value[1:] for key, value in columns.items()})
    bad["gone"] = (columns, None)
    for name, of_ranks in bad.items():
        for rank, content in enumerate(of_ranks):
            (path / f"{name}{rank}").mkdir()
            if content is not None:
                np.savez(path / f"{name}{rank}" / "data.npz", **{k: v for k, v in content.items() if v is not None})
    done = run_ranks([*ME, "learn"], timeout=120, cwd=path)
    assert done.returncode == 0, done.stderr[-3000:]
    return path


def reports(folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def test_ranks_end_with_the_same_parameters_having_learned(folder: Path) -> None:
    first, second = reports(folder)
    assert first["hash"] == second["hash"]
    told = read_json(folder / "run" / "result.json")
    assert (told["stop_reason"], told["train_iter"], told["world_size"]) == ("train_epoch", 3 * PER_EPOCH, 2)
    losses = [line["train/total_loss"] for line in read_metrics(folder / "whole") if "train/total_loss" in line]
    assert np.mean(losses[-5:]) < 0.7 * losses[0]


@pytest.mark.parametrize("name", BAD)
def test_a_data_set_that_cannot_be_used_is_an_error_on_every_rank(folder: Path, name: str) -> None:
    for report in reports(folder):
        message, seconds = report["errors"][name]
        assert "'data.npz'" in message
        assert BAD[name][1] in message
        assert seconds < 30
    assert not list(folder.glob(f"{name}?/run*"))


def test_what_only_one_rank_lacks_is_an_error_on_the_others_too(folder: Path) -> None:
    for errors in (report["errors"] for report in reports(folder)):
        assert errors["gone"][0].startswith("[rank 1] Data set 'data.npz' does not exist")
        assert "transitions is 601 on rank 0, 600 on rank 1: give all ranks the same" in errors["differs"][0]


def test_through_the_launcher_the_error_is_one_line_and_nothing_is_left(folder: Path, tmp_path: Path) -> None:
    os.link(folder / "lacks0" / "data.npz", tmp_path / "data.npz")
    begin = time.monotonic()
    done = launch([*ME, "train"], timeout=120, cwd=tmp_path)
    assert time.monotonic() - begin < 30
    assert done.returncode != 0
    assert "Data set 'data.npz' lacks 'action'" in done.stderr
    assert "tests/entry/offline.py" not in done.stderr  # no traceback
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


@pytest.mark.slow
def test_a_run_that_is_killed_and_terminated_goes_on_as_if_nothing_had_been(folder: Path, tmp_path: Path) -> None:
    os.link(folder / "data.npz", tmp_path / "data.npz")
    run = tmp_path / "run"
    last = EPOCHS * PER_EPOCH

    def begin(*words: str) -> Any:
        ports = ["--nproc_per_node=2", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
        return start([sys.executable, "-m", "torch.distributed.run", *ports, *ME, "train", *words], cwd=tmp_path)

    process = begin()
    try:
        wait_until(lambda: len(checkpoints(run)) > 1 and logged_iter(run) > 80, process)
    finally:
        kill_marked(process.mark)
    assert finish(process, 120).returncode == -signal.SIGKILL
    assert not (run / "result.json").exists()
    killed_at = checkpoints(run)[-1][1]
    assert killed_at < last

    process = begin("policy.learn.resume_training=True")
    try:
        wait_until(lambda: logged_iter(run) > killed_at + 60, process)
        process.send_signal(signal.SIGTERM)
        done = finish(process, 120)
    finally:
        kill_marked(process.mark)
    assert f"resumed from iteration_{killed_at}" in done.stderr
    told = read_json(run / "result.json")
    assert (told["stop_reason"], told["signal"]) == ("interrupted", signal.SIGTERM)
    assert checkpoints(run)[-1][1] == told["train_iter"] < last

    done = finish(begin("policy.learn.resume_training=True"), 120)
    assert done.returncode == 0, done.stderr[-3000:]
    whole = folder / "whole"
    assert not differences(list(states(whole).values()), list(states(run).values()))
    assert not differences(points(whole)[0], points(run)[0])


def main() -> None:
    what, *words = sys.argv[1:]
    with DDPContext(timeout=60):
        {"learn": rank_learn, "train": rank_train}[what](*words)


if __name__ == "__main__":
    main()

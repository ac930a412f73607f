"""The follower reads what is complete, and tells a tracker nothing twice."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ding_lite.utils.tracker.follower import follow, read_state, write_state
from ding_lite.utils.tracker.services import Job
from tests.utils.tracker.notebook import points, read

TRACKER: dict[str, Any] = {"type": "notebook", "name": None, "group": None, "options": {}, "patience": 1.0}


def make_job(exp_dir: Path, **tracker: object) -> Job:
    config = {"seed": 0, "tracker": {**TRACKER, **tracker}}
    return Job("notebook", "tests.utils.tracker.notebook", str(exp_dir), config, "train_iter", ["train_iter"], 1)


def test_a_tracker_is_told_each_figure_at_the_count_of_the_run_and_nothing_that_is_null(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    lines = [{"train_iter": 3, "loss": 1.5, "return": None}, {"train_iter": 4, "return": 2.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "result.json").write_text('{"stop_reason": "max_train_iter"}')
    ended, said = threading.Event(), list[str]()
    ended.set()
    for _ in range(2):  # the second time it knows everything
        follow(make_job(tmp_path), ended, said.append)
    assert points(tmp_path) == [[3, {"loss": 1.5}], [4, {"return": 2.0}]]
    assert read(tmp_path, "finish")[0]["result"] == {"stop_reason": "max_train_iter"}
    assert said == ["tracker: notebook.jsonl"] * 2
    assert read_state(make_job(tmp_path)) == {"type": "notebook", "id": "page-1", "lines": 2}


def test_a_damaged_state_is_a_new_run(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    assert read_state(job) == {"id": "", "lines": 0}
    write_state(job, "abc", 4)
    assert read_state(job)["id"] == "abc"
    (tmp_path / "tracker.json").write_text('{"type": "note')
    assert read_state(job) == {"id": "", "lines": 0}


@pytest.mark.parametrize(
    ("folder", "group"),
    [
        ("cartpole_seed0", "cartpole"), ("cartpole_seed12_261123_030405", "cartpole"), ("pong", "pong"),
        ("cartpole_seed0_261123_030405_2", "cartpole"), ("trial_0003_seed1", "trial_0003"), ("seed_1", "seed_1"),
    ],
)  # fmt: skip
def test_the_group_is_the_name_without_the_seed(tmp_path: Path, folder: str, group: str) -> None:
    job = make_job(tmp_path / folder)
    assert (job.name, job.group) == (folder, group)
    job = make_job(tmp_path / folder, name="mine", group="ours")
    assert (job.name, job.group) == ("mine", "ours")

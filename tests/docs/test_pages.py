"""Pages whose code and commands run as they stand there."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.entry import serial_pipeline_onpolicy
from tests.distributed.launcher import ROOT, finish, run_forked, run_ranks, start
from tests.docs.test_docs import BLOCK, blocks, follow, run
from tests.docs.test_extending import write_files
from tests.run.helpers import CONFIG, SHORT, metrics, result
from tests.run.helpers import run as train

DATASETS, OFFLINE = ROOT / "docs/datasets.md", ROOT / "docs/offline.md"
COURIER = ROOT / "docs/tutorials/own_environment.md"


def test_the_page_acts_exports_and_measures(capsys: pytest.CaptureFixture[str]) -> None:
    train("exp_name=small")
    capsys.readouterr()
    act, export, measure = blocks(ROOT / "docs" / "agent.md", "python")
    names = {"torch": torch}
    exec(act, names)
    assert 0 < float(capsys.readouterr().out) <= 200  # CartPole-v0 ends after 200 steps, each worth 1
    exec(export, names)
    assert names["actions"].shape == (3,)
    exec(measure.replace("1000", "3"), names)
    assert float(capsys.readouterr().out) > 0


def test_a_tracker_of_ones_own_works_as_printed(tmp_path: Path) -> None:
    (tmp_path / "my_tracker.py").write_text(blocks(ROOT / "docs/trackers.md", "python")[1])
    words = ['policy.import_names=["my_tracker"]', "tracker.type=best", "max_env_step=320"]
    done = run(["-m", "ding_lite", "-c", str(CONFIG), *SHORT, *words], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tracker: run.best\n" in done.stderr
    last = [line for line in metrics(tmp_path / "run") if "eval/return_best" in line][-1]
    assert json.loads((tmp_path / "run.best").read_text()).items() <= last.items()


def test_a_simulator_of_ones_own_is_learned_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, create_config = blocks(ROOT / "docs/batched.md", "python")
    (tmp_path / "walkers_of_the_page.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {}
    exec(create_config.replace("my_project.walkers", "walkers_of_the_page"), names)
    env = dict(collector_env_num=64, evaluator_env_num=10, n_evaluator_episode=10, stop_value=1)
    policy = dict(collect=dict(n_sample=64 * 16), learn=dict(batch_size=256), eval=dict(evaluator=dict(eval_freq=40)))
    serial_pipeline_onpolicy(
        (dict(exp_name="walk", env=env, policy=policy), names["create_config"]), max_env_step=10**5
    )
    assert result(Path("walk"))["stop_reason"] == "stop_value"


def test_the_plain_loop_trains(tmp_path: Path) -> None:
    assert write_files(DATASETS, tmp_path) == ["plain_loop.py", "several_ranks.py"]
    done = run_forked(["plain_loop.py"], 120, cwd=tmp_path)
    told = re.fullmatch(r"(\d+) env steps, (\S+) episodes\n", done.stdout)
    assert told is not None, done.stdout
    envstep, episodes = map(float, told.groups())
    assert envstep >= 100 * 40  # as many steps as samples at least
    assert episodes > 0


def test_two_ranks_step_together(tmp_path: Path) -> None:
    write_files(DATASETS, tmp_path)
    assert "torchrun --nproc_per_node=2 several_ranks.py\n" in blocks(DATASETS, "sh")
    done = run_ranks(tmp_path / "several_ranks.py", timeout=120, cwd=tmp_path)
    sums = re.findall(r"^rank (\d): (\S+)$", done.stdout, re.M)
    assert {rank for rank, _ in sums} == {"0", "1"}
    assert len({value for _, value in sums}) == 1


@pytest.mark.slow
def test_the_tutorial_ends_with_a_courier_that_takes_the_shortest_way(tmp_path: Path) -> None:
    assert write_files(COURIER, tmp_path) == ["courier.py", "check.py", "courier_config.py", "watch.py"]
    check, train, watch = (block.strip() for block in blocks(COURIER, "sh"))
    assert "keeps gymnasium's rules" in follow(check, tmp_path)
    follow(train, tmp_path)
    told = result(tmp_path / "courier")
    assert told["stop_reason"] == "stop_value"
    assert told["eval_return_best"] == -4  # two cells in two directions, -1 each
    lines = follow(watch, tmp_path).splitlines()
    assert [line.partition(": ")[2].partition(",")[0] for line in lines] == ["4 steps"] * 3


@pytest.mark.learn
def test_the_commands_of_the_page_run_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "dizoo").symlink_to(ROOT / "dizoo")
    commands: list[list[str]] = []
    for kind, text in BLOCK.findall(OFFLINE.read_text()):
        if kind == "python":
            (tmp_path / f"block{len(commands)}.py").write_text(text)
            commands.append([sys.executable, f"block{len(commands)}.py"])
        elif kind == "sh":
            lines = text.replace("\\\n", "").splitlines()
            commands += [[sys.executable, "-m", *shlex.split(line)] for line in lines]
    assert len(commands) == 6
    for command in commands:
        done = finish(start(command, cwd=tmp_path), 200)
        assert done.returncode == 0, done.stderr[-3000:]
    results = [result(path.parent) for path in tmp_path.glob("*/result.json")]
    assert sorted(told["world_size"] for told in results) == [1, 1, 1, 2]
    assert {told["stop_reason"] for told in results} <= {"stop_value", "train_epoch", "max_train_iter"}
    assert all(told["eval_return_best"] > 150 for told in results)

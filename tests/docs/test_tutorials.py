"""The commands of docs/results.md and of docs/tutorials, as printed but with fewer steps."""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.launcher import ROOT, finish, free_port, start
from tests.docs.test_docs import blocks

TUTORIALS = ROOT / "docs" / "tutorials"
STEPS = "max_env_step=640"
PROGRAMS = {"ding_lite": ["-m", "ding_lite"], "torchrun": ["-m", "torch.distributed.run"]}


def begin(command: str, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a command of a page, with further words, in a folder that has dizoo as a checkout does."""
    if not (folder / "dizoo").exists():
        (folder / "dizoo").symlink_to(ROOT / "dizoo")
    program, *given = shlex.split(re.sub(r"max_env_step=\d+", STEPS, command).replace("\\\n", ""))
    return start([sys.executable, *PROGRAMS[program], *given, *words], {"COLUMNS": "100"}, folder)


def follow(command: str, folder: Path, *words: str, status: int = 0) -> str:
    """Run a command of a page; return what it prints."""
    done = finish(begin(command, folder, *words), timeout=280)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def returns(run: Path) -> list[tuple[int, float]]:
    """Return the env steps and the mean returns of the evaluations of a run."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(record["envstep"], record["eval/return_mean"]) for record in records if "eval/return_mean" in record]


@pytest.mark.slow
def test_a_run_goes_from_one_process_to_two_and_to_two_machines(tmp_path: Path) -> None:
    page = TUTORIALS / "several_processes.md"
    one, two, own, resume, machines = (block.strip() for block in blocks(page, "sh"))
    summaries = blocks(page, "text")
    for command, summary in zip((one, two, own), summaries, strict=False):
        assert summary in follow(command, tmp_path)
    assert [step for step, _ in returns(tmp_path / "one")] == [step for step, _ in returns(tmp_path / "two")]

    first = machines.replace("--master_port=29500", f"--master_port={free_port()}")
    assert "--node_rank=0" in first
    shells = [begin(first, tmp_path, "exp_name=a")]
    shells.append(begin(first.replace("--node_rank=0", "--node_rank=1"), tmp_path, "exp_name=b"))
    ends = [finish(process, timeout=280) for process in shells]
    assert [done.returncode for done in ends] == [0, 0], ends[0].stderr
    assert not (tmp_path / "b").exists()  # all ranks write into the directory of rank 0
    assert returns(tmp_path / "a") == returns(tmp_path / "two")

    assert summaries[3] in follow(resume, tmp_path, "max_env_step=960")
    result = json.loads((tmp_path / "two" / "result.json").read_text())
    assert result["world_size"] == 3
    assert result["envstep"] > 640


@pytest.mark.slow
def test_a_sweep_is_continued_by_two_and_its_winner_is_compared_with_fresh_seeds(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("scipy")
    sweep, confirm = (block.strip() for block in blocks(TUTORIALS / "sweeps.md", "sh"))
    sweep = sweep.replace("--trials 12", "--trials 2")
    follow(sweep.replace("--trials 2", "--trials 1"), tmp_path)
    shells = [begin(sweep, tmp_path), begin(sweep, tmp_path)]
    ends = [finish(process, timeout=280) for process in shells]
    assert [done.returncode for done in ends] == [0, 0], ends[0].stderr
    header = blocks(TUTORIALS / "sweeps.md", "text")[1].splitlines()[0]
    assert all(header.split() == done.stdout.splitlines()[0].split() for done in ends)
    with open(tmp_path / "lr_sweep" / "trials.csv", newline="") as file:
        trials = list(csv.DictReader(file))
    assert [trial["ended"] for trial in trials] == ["complete", "complete"]
    assert all(len(trial["runs"].split()) == 2 for trial in trials)  # seeds 0 and 1

    best, default, compare = confirm.replace("\\\n", "").splitlines()
    for command in (best, default):
        assert "10 11 12 13 14" in command
        follow(command.replace("10 11 12 13 14", "10 11"), tmp_path)
    table = follow(compare, tmp_path)
    assert "reached 195" in table
    assert "P(better)" in table
    results = [json.loads(path.read_text()) for path in (tmp_path / "confirm").glob("*/result.json")]
    assert sorted(told["seed"] for told in results) == [10, 10, 11, 11]
    assert {told["stop_reason"] for told in results} == {"max_env_step"}


@pytest.mark.slow
def test_three_algorithms_are_compared_by_a_loop_of_the_shell(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "dizoo").symlink_to(ROOT / "dizoo")
    (loop,) = (block for block in blocks(ROOT / "docs" / "results.md", "sh") if "-s 0 1 2 3 4 " in block)
    loop = loop.replace("-s 0 1 2 3 4 ", "-s 0 1 ").replace("max_env_step=20000", STEPS)
    script = f'set -e\nding_lite() {{ {shlex.quote(sys.executable)} -m ding_lite "$@"; }}\n{loop}'
    done = finish(start(["bash", "-c", script], {"COLUMNS": "100"}, tmp_path), timeout=280)
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("CartPole-v1\n") :].splitlines()  # one environment, so one table
    assert [line.split()[:2] for line in table[3:6]] == [["c51", "2"], ["dqn", "2"], ["ppo", "2"]]
    assert (tmp_path / "curves.pdf").is_file()
    assert (tmp_path / "report.html").is_file()

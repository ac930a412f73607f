"""The code of docs/callbacks.md, run as it stands there on two processes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.launcher import run_ranks
from tests.dizoo.extras import needs
from tests.docs.test_docs import ROOT, blocks
from tests.docs.test_extending import write_files

PAGE = ROOT / "docs" / "callbacks.md"


def run_example(name: str, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a file of the page by its command; return its result and the lines of its metrics."""
    write_files(PAGE, folder)
    (command,) = re.findall(rf"^torchrun --nproc_per_node=2 {name}.py$", PAGE.read_text(), re.M)
    run_ranks([shlex.split(command)[-1]], timeout=280, cwd=folder)
    lines = (folder / name / "metrics.jsonl").read_text().splitlines()
    return json.loads((folder / name / "result.json").read_text()), [json.loads(line) for line in lines]


@pytest.mark.slow
def test_a_run_stops_when_evaluations_no_longer_improve(tmp_path: Path) -> None:
    result, metrics = run_example("early_stopping", tmp_path)
    assert result["stop_reason"] == "callback"
    returns = [line["eval/return_mean"] for line in metrics if "eval/return_mean" in line]
    assert max(returns) == returns[-6]  # then five that were not better
    assert not any(before == max(returns) for before in returns[:-6])


@pytest.mark.slow
def test_a_learning_rate_follows_the_evaluations(tmp_path: Path) -> None:
    result, metrics = run_example("halve_rate", tmp_path)
    assert result["stop_reason"] == "max_env_step"
    best, rate, rates = -1.0, 1e-3, []
    for line in metrics:
        if "eval/return_mean" in line:
            best, rate = (line["eval/return_mean"], rate) if line["eval/return_mean"] > best else (best, rate / 2)
            rates.append(rate)
    logged = [line["train/learning_rate"] for line in metrics if "train/learning_rate" in line]
    assert min(rates) < 1e-3
    assert min(logged) == pytest.approx(rates[-1]) or min(logged) == pytest.approx(
        rates[-2]
    )  # the last evaluation is after the last iteration


@pytest.mark.slow
def test_a_curriculum_lengthens_the_pole(tmp_path: Path) -> None:
    _, metrics = run_example("longer_pole", tmp_path)
    length, lengths = 0.5, []
    for line in metrics:
        if "eval/return_mean" in line:
            length *= 1.5 if line["eval/return_mean"] > 100 else 1
            lengths.append(length)
    assert [line["curriculum/length"] for line in metrics if "curriculum/length" in line] == lengths
    assert lengths[-1] > 0.5


@pytest.mark.slow
def test_a_figure_of_ones_own_is_recorded_with_each_evaluation(tmp_path: Path) -> None:
    _, metrics = run_example("own_figure", tmp_path)
    evaluations = [line["envstep"] for line in metrics if "eval/return_mean" in line]
    norms = {line["envstep"]: line["mine/norm"] for line in metrics if "mine/norm" in line}
    assert list(norms) == evaluations
    assert len(set(norms.values())) > 1
    assert all(norm > 0 for norm in norms.values())


@pytest.mark.slow
def test_a_league_plays_against_checkpoints_of_its_run(tmp_path: Path) -> None:
    needs("pettingzoo")
    write_files(PAGE, tmp_path)
    script = (tmp_path / "league.py").read_text()
    (tmp_path / "league.py").write_text(script.replace("200_000", "22_000"))
    run_ranks(["league.py"], nproc=1, timeout=200, cwd=tmp_path)
    lines = (tmp_path / "league" / "metrics.jsonl").read_text().splitlines()
    assert max(json.loads(line).get("league/opponents", 0) for line in lines) >= 2


def test_every_block_of_the_page_is_run_here() -> None:
    assert len(blocks(PAGE, "python")) == 5

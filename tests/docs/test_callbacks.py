"""The code of docs/callbacks.md, run as it stands there on two processes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.launcher import run_ranks
from tests.dizoo.extras import needs
from tests.docs.test_docs import ROOT, blocks
from tests.docs.test_extending import write_files
from tests.run.helpers import metrics, result

PAGE = ROOT / "docs" / "callbacks.md"


def run_example(name: str, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a file of the page by its command; return its result and the lines of its metrics."""
    write_files(PAGE, folder)
    (command,) = re.findall(rf"^torchrun --nproc_per_node=2 {name}.py$", PAGE.read_text(), re.M)
    run_ranks([shlex.split(command)[-1]], timeout=280, cwd=folder)
    return result(folder / name), metrics(folder / name)


@pytest.mark.slow
def test_a_run_stops_when_evaluations_no_longer_improve(tmp_path: Path) -> None:
    told, lines = run_example("early_stopping", tmp_path)
    assert told["stop_reason"] == "callback"
    returns = [line["eval/return_mean"] for line in lines if "eval/return_mean" in line]
    assert max(returns) == returns[-6]  # then five that were not better
    assert not any(before == max(returns) for before in returns[:-6])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "figure"),
    [("halve_rate", "train/learning_rate"), ("longer_pole", "curriculum/length"), ("own_figure", "mine/norm")],
)
def test_an_example_changes_its_figure(name: str, figure: str, tmp_path: Path) -> None:
    told, lines = run_example(name, tmp_path)
    assert told["stop_reason"] == "max_env_step"
    values = {line["envstep"]: line[figure] for line in lines if figure in line}
    assert len(set(values.values())) > 1
    if name == "halve_rate":
        assert sorted(values.values(), reverse=True) == list(values.values())
    else:
        assert list(values) == [line["envstep"] for line in lines if "eval/return_mean" in line]


@pytest.mark.slow
def test_a_league_plays_against_checkpoints_of_its_run(tmp_path: Path) -> None:
    needs("pettingzoo")
    write_files(PAGE, tmp_path)
    script = (tmp_path / "league.py").read_text()
    (tmp_path / "league.py").write_text(script.replace("200_000", "22_000"))
    run_ranks(["league.py"], nproc=1, timeout=200, cwd=tmp_path)
    assert max(line.get("league/opponents", 0) for line in metrics(tmp_path / "league")) >= 2


def test_every_block_of_the_page_is_run_here() -> None:
    assert len(blocks(PAGE, "python")) == 5

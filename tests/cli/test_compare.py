from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import call
from tests.results.helpers import write_run

pytest.importorskip("scipy")


@pytest.fixture(autouse=True)
def runs(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / f"one{seed}", seed)
        write_run(tmp_path / f"three{seed}", seed, (10.0, 20.0, 30.0 + seed), "policy.nstep=3")


@pytest.mark.parametrize("columns", [60, 80])
def test_the_table_fits_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    call("compare", ".", "--threshold", "25")
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= columns
    assert ("reached 25" in said) == (columns == 60)  # as blocks of lines; wider, the header is folded


def test_a_file_has_the_format_of_its_name_or_the_one_that_is_given(tmp_path: Path) -> None:
    call("compare", ".", "-o", "new/table.csv")
    call("compare", ".", "-o", "table.md")
    call("compare", ".", "-o", "table.txt", "--format", "markdown", "--by", "run")
    assert (tmp_path / "new/table.csv").read_text().startswith("env,group,runs,")
    assert (tmp_path / "table.md").read_text().startswith("## CartPole-v0\n")
    assert "| one0 | 1 | 190 |" in (tmp_path / "table.txt").read_text()


def test_scores_of_all_tasks_are_one_table_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "returns.csv").write_text("env,random,reference\nCartPole-v0,10,200\n")
    words = ("compare", ".", "--normalize", "returns.csv", "--threshold", "0.5")
    call(*words, "-o", "profiles.svg")
    said = capsys.readouterr().out.splitlines()
    # 190 of two runs is 180 / 190; 30 and 31 are about a tenth
    assert said[1].split() == ["dqn,", "nstep=1", "2", "0.95", "[0.95,", "0.95]", "1.00", "[1.00,", "1.00]", "-"]
    assert said[2].split()[2:] == ["2", "0.11", "[0.11,", "0.11]", "0.00", "[0.00,", "0.00]", "0.00", "[0.00,", "0.61]"]
    assert max(map(len, said)) <= 80
    assert "normalised score" in (tmp_path / "profiles.svg").read_text()
    call(*words, "-o", "table.csv")
    assert (tmp_path / "table.csv").read_text().startswith("group,runs,IQM,IQM low,IQM high,above 0.5,")
    call(*words, "--format", "markdown")
    assert "| dqn, nstep=1 | 2 | 0.95 [0.95, 0.95] |" in capsys.readouterr().out

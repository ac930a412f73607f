"""What reads runs: `runs`, `plot`, `compare`, `report` and `clean`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.commands import call
from tests.results.helpers import write_run

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")
import sys
from collections.abc import Callable

from ding_lite.utils.registry import UserError


@pytest.mark.parametrize(("columns", "lines"), [(60, 2), (80, 2), (100, 1)])
def test_runs_are_listed_within_the_terminal_and_names_can_be_copied(
    columns: int, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    write_run(tmp_path / "some/cartpole_dqn_seed0_with_a_long_name", ending="max_env_step")
    write_run(tmp_path / "some/killed", ending=None)
    call("runs", "some")
    *said, total = capsys.readouterr().out.splitlines()
    assert max(map(len, said)) <= columns
    rows = [" ".join(said[begin : begin + lines]).split() for begin in range(0, len(said), lines)]
    assert [row[:6] for row in rows] == [
        ["run", "policy", "env", "ended", "best", "env"],
        ["cartpole_dqn_seed0_with_a_long_name", "dqn", "CartPole-v0", "max_env_step", "190", "200"],
        ["killed", "dqn", "CartPole-v0", "killed", "190", "200"],
    ]
    assert total.startswith("2 runs, ")


def test_a_directory_of_runs_becomes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(2):
        write_run(tmp_path / f"runs/{seed}", seed, [1.0, 2.0, 3.0, 4.0][: 3 + seed])
    call("plot", "runs", "--x", "seconds", "--average", "iqm", "-o", "images/new.png", "--width", "2", "--title", "Two")
    assert (tmp_path / "images/new.png").read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr()
    assert said.out == "images/new.png\n"
    assert said.err == "note: The average of 'dqn' ends with its shortest run, '0': seconds 20 of 30.\n"
    call("plot", "runs", "--hold", "--each", "--by", "run")
    assert (tmp_path / "curves.png").exists()


@pytest.fixture
def groups(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / f"one{seed}", seed)
        write_run(tmp_path / f"three{seed}", seed, (10.0, 20.0, 30.0 + seed), "policy.nstep=3")


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("columns", [60, 80])
def test_the_table_fits_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    call("compare", ".", "--threshold", "25")
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= columns
    assert ("reached 25" in said) == (columns == 60)  # as blocks of lines; wider, the header is folded


@pytest.mark.usefixtures("groups")
def test_a_file_has_the_format_of_its_name_or_the_one_that_is_given(tmp_path: Path) -> None:
    call("compare", ".", "-o", "new/table.csv")
    call("compare", ".", "-o", "table.md")
    call("compare", ".", "-o", "table.txt", "--format", "markdown", "--by", "run")
    assert (tmp_path / "new/table.csv").read_text().startswith("env,group,runs,")
    assert (tmp_path / "table.md").read_text().startswith("## CartPole-v0\n")
    assert "| one0 | 1 | 190 |" in (tmp_path / "table.txt").read_text()


@pytest.mark.usefixtures("groups")
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


def test_a_report_is_written_with_the_options_of_plot_and_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2):
        write_run(tmp_path / f"runs/{seed}", seed)
    call("report", "runs", "--threshold", "50", "--x", "iteration", "-o", "new/page.html")
    text = (tmp_path / "new/page.html").read_text()
    assert "<title>Runs in runs</title>" in text
    assert "reached 50" in text
    assert capsys.readouterr().out == "new/page.html\n"
    call("report", "runs", "--title", "Seeds")
    assert "<title>Seeds</title>" in (tmp_path / "report.html").read_text()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a checkpoint that is not needed any more, beside a newer one and a run without evaluations."""
    folder = write_run(tmp_path / "run") / "ckpt"
    folder.mkdir()
    for name in ("iteration_1", "iteration_2", "iteration_2.rank_0"):
        (folder / f"{name}.pth.tar").write_bytes(bytes(2_000_000))
    write_run(tmp_path / "empty", 0, [])
    return folder / "iteration_1.pth.tar"


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that answers the question on a terminal."""

    def set_answer(text: str) -> None:
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", lambda question: print(question) or text)

    return set_answer


def test_it_says_what_it_would_remove_and_asks(
    old: Path, answer: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    answer("")
    call("clean", ".")
    assert capsys.readouterr().out.splitlines() == [
        "run",
        "  1 file of checkpoints, 2.0 MB",
        "Remove 2.0 MB from 1 run? [y/N] ",
        "Nothing was removed.",
    ]
    assert old.exists()
    answer("y")
    call("clean", ".")
    assert not old.exists()
    assert capsys.readouterr().out.endswith("Removed 2.0 MB from 1 run.\n")
    call("clean", ".")
    assert capsys.readouterr().out == "There is nothing to remove.\n"


def test_without_a_terminal_it_removes_nothing_unless_told(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(UserError, match=r"there is no terminal to ask on. Give --yes to remove it\."):
        call("clean", "run")
    assert old.exists()
    call("clean", "run", "--yes", "--parts")
    assert [file.name for file in old.parent.iterdir()] == ["iteration_2.pth.tar"]


def test_whole_runs_are_removed_only_on_demand(old: Path, tmp_path: Path) -> None:
    call("clean", ".", "--yes")
    assert (tmp_path / "empty").exists()
    call("clean", ".", "--yes", "--runs")
    assert not (tmp_path / "empty").exists()
    assert (tmp_path / "run").exists()


def test_no_output_obeys_the_name_of_a_directory_or_the_text_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("\x1b]0;owned\x07", "cut\n<img src=x onerror=alert(1)>", os.fsdecode(b"no utf-8 \xff")):
        run = write_run(tmp_path / "run", 0, [10.0, 20.0], ending="\x1b[31mred").rename(tmp_path / name)
        (run / "ckpt").mkdir()
        for number in (1, 2):
            (run / f"ckpt/iteration_{number}.pth.tar").touch()
    config = run / "total_config.py"
    config.write_text(config.read_text().replace("CartPole-v0", "Cart\\n# Pole\\x1b[2J"))
    root = str(tmp_path)
    call("runs", root)
    call("clean", root, "--yes")
    call("compare", root)
    call("compare", root, "--by", "run", "--format", "markdown", "-o", "table.md")
    call("report", root, "--by", "run", "-o", "report.html")
    shown = "".join(capsys.readouterr())
    assert r"\x1b]0;owned\x07" in shown
    written = Path("table.md").read_text() + Path("report.html").read_text()
    assert {char for char in shown + written if not char.isprintable()} == {"\n"}
    assert "<img src=x" not in written
    assert r"## Cart&#92;n# Pole&#92;x1b[2J" in written.splitlines()
    with pytest.raises(UserError, match=r"^'\\x1b\[2J' "):
        call("compare", "\x1b[2J")

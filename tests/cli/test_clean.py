from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ding_lite.utils.registry import UserError
from tests.cli.commands import call
from tests.results.helpers import write_run


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


def test_the_end_of_input_means_no(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(question: str) -> str:
        raise EOFError

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", end)
    call("clean", ".")
    assert old.exists()

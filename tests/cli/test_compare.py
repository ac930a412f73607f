from __future__ import annotations

from pathlib import Path

import pytest

from ding_lite.utils.registry import UserError
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (". -o table.xls", "'table.xls': expected a name that ends in .txt, .md, .csv, or --format."),
        (". --against dqn", "--against dqn: CartPole-v0 has no such group, so its runs do not compare."),
        ("one0/total_config.py/x", "'one0/total_config.py/x' does not exist or is not a directory"),
        (". -o one0/total_config.py/x.md", "Cannot write 'one0/total_config.py/x.md'"),
    ],
)
def test_mistakes_are_one_line(words: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        call("compare", *words.split())
    assert str(error.value).startswith(message)

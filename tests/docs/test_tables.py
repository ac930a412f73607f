"""The tables of the pages are whole, and the test files that the pages name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.benchmarks import tables
from tests.docs.test_docs import PAGES, ROOT
from tests.results.helpers import write_run

TEST_FILE = re.compile(r"`((?:\w+/)+test_\w+\.py)`")


def cells(row: str) -> int:
    """Count the cells of a row; `\\|` is a character, not a border."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1


def test_test_files_that_pages_name_exist() -> None:
    named = {name for page in PAGES for name in TEST_FILE.findall(page.read_text())}
    assert named
    assert [name for name in sorted(named) if not (ROOT / "tests" / name.removeprefix("tests/")).exists()] == []


def test_the_installation_page_lists_every_extra_and_errors_name_no_other() -> None:
    block = (ROOT / "setup.py").read_text().partition("extras_require={")[2].partition("entry_points")[0]
    extras = set(re.findall(r'^        "(\w+)": ', block, re.M))
    page = (ROOT / "docs/installation.md").read_text().partition("| extra |")[2]
    assert {name for row in re.findall(r"^\| (`.+?) \|", page, re.M) for name in re.findall(r"`(\w+)`", row)} == extras
    code = "".join(path.read_text() for path in (ROOT / "ding_lite").rglob("*.py"))
    named = {name for names in re.findall(r"ding_lite\[([a-z0-9,]+)\]", code) for name in names.split(",")}
    assert named
    assert named <= extras


def test_the_tables_of_benchmarks_are_those_of_the_curves_in_the_repository() -> None:
    page = tables.PAGE.read_text()
    assert tables.filled(page) == page, "run 'python -m tests.benchmarks.tables --write'"
    paths = list(tables.RESULTS.iterdir())
    assert {match[2] for match in tables.BLOCK.finditer(page)} == {path.stem for path in paths}
    assert sum(path.stat().st_size for path in paths) < 3e6


def test_the_curves_of_runs_are_added_in_the_place_of_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    for returns in ([10.0, 60.0], [10.0, 199.0, 100.0]):
        write_run(tmp_path / str(len(returns)), 3, returns)
        tables.add("new", [str(tmp_path / str(len(returns)))], None)
    assert "over 100 new episodes" not in tables.table("new")  # a column without figures
    (tmp_path / "3/check.json").write_text("123.4")
    tables.add("new", [str(tmp_path / "3")], None)
    # 195 is reached after 100 env steps, where 199 and 100 are 150 on average
    assert tables.table("new").splitlines()[2].split(" | ")[1:-1] == [
        "dqn",
        "3",
        "195",
        "0.1",
        "0.2",
        "100",
        "150",
        "123",
    ]

"""The tables of the pages are whole, and the test files that the pages name exist."""

from __future__ import annotations

import re

from tests.benchmarks import tables
from tests.docs.test_docs import PAGES, ROOT

TEST_FILE = re.compile(r"`((?:\w+/)+test_\w+\.py)`")


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

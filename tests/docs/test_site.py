"""docs/conf.py: pages become those of the site. The site itself is built by `make site`, also in CI."""

from __future__ import annotations

import inspect
import json
import re
import sys
from types import ModuleType

import pytest

from tests.docs.test_docs import ROOT, load


@pytest.fixture
def conf(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("DOCS_REPOSITORY", raising=False)
    return load("conf")


def page(conf: ModuleType, docname: str, text: str) -> str:
    source = [text]
    conf.read_source(None, docname, source)
    return source[0]


@pytest.mark.parametrize(
    ("docname", "text", "expected"),
    [
        ("agent", "[a](results.md#curves)", "[a](results.md#curves)"),
        ("agent", "[a](#b) [c](http://d)", "[a](#b) [c](http://d)"),
        ("algorithms/dqn", "[a](../offline.md)", "[a](../offline.md)"),
        ("quickstart", "[README](../README.md)", "[README](index.md)"),
        ("index", "[a](../CONTRIBUTING.md)", "[a](site/contributing.md)"),
        ("algorithms/dqn", "[a](../../CHANGELOG.md)", "[a](../site/changelog.md)"),
        ("agent", "[`setup`](../setup.py) b", "`setup` b"),
        ("agent", "```python\nx[0](../setup.py)\n```", "```python\nx[0](../setup.py)\n```"),
    ],
)
def test_a_link_leads_to_a_page_or_is_text(conf: ModuleType, docname: str, text: str, expected: str) -> None:
    assert page(conf, docname, text) == expected


def test_a_link_leads_to_the_repository_if_there_is_one(conf: ModuleType) -> None:
    conf.__dict__["REPOSITORY"] = "https://host/blob/main"
    assert page(conf, "agent", "[a](../setup.py#L1)") == "[a](https://host/blob/main/setup.py#L1)"


def test_the_changelog_of_the_root_is_a_page_with_links_that_hold(conf: ModuleType) -> None:
    text = page(conf, "site/changelog", "")
    assert text.startswith("# Changelog")
    links = [link for link in re.findall(r"\]\(([^)\s#]+)", text) if not link.startswith("http")]
    assert len(links) > 3
    assert [link for link in links if not (ROOT / "docs/site" / link).exists()] == []


def test_a_notebook_is_a_page_of_its_cells(conf: ModuleType) -> None:
    cells = [{"cell_type": "markdown", "source": ["# A\n", "b"]}, {"cell_type": "code", "source": ["x = 1"]}]
    assert conf.show_notebook(json.dumps({"cells": cells})) == "# A\nb\n\n```python\nx = 1\n```"


def test_an_indented_block_of_a_docstring_is_an_equation_and_arguments_are_not(conf: ModuleType) -> None:
    lines = ["Sum |x| and `|y|`.", "", "    y = |x|", "", "Args:", "    x: what.", "", "    more of it."]
    conf.read_docstring(None, "function", "f", None, None, lines)
    expected = [r"Sum \|x\| and `|y|`.", "", "::", "", "    y = |x|", "", *lines[-4:]]
    assert lines == expected


def test_defaults_that_are_functions_or_classes_are_shown_by_their_names(conf: ModuleType) -> None:
    default = inspect.signature(lambda a=inspect.signature, b=ModuleType, c=lambda: 0, d="x": 0)
    args, returns = conf.read_signature(None, "function", "f", None, None, str(default), "int")
    assert (args, returns) == ("(a=signature, b=module, c=lambda, d='x')", "int")
    assert conf.read_signature(None, "class", "C", None, None, None, None) == (None, None)


def test_ci_builds_the_site_after_it_has_installed_the_extra_as_a_user_does() -> None:
    build = (ROOT / "Makefile").read_text().partition("\nsite:")[2].partition("\n\n")[0]
    assert "pip install --quiet --editable '.[docs]'" in build
    assert re.search(r"^make site ", (ROOT / ".ci/run").read_text(), re.M)


def test_the_pages_of_the_api_name_every_public_package() -> None:
    pages = "\n".join(path.read_text() for path in (ROOT / "docs/api").glob("*.md"))
    named = set(re.findall(r"^\.\. automodule:: ([\w.]+)$", pages, re.M))
    lists = [path for path in (ROOT / "ding_lite").glob("*/__init__.py") if "lazy_names" in path.read_text()]
    assert {f"ding_lite.{path.parent.name}" for path in lists} <= named

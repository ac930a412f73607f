"""Every algorithm has a page, which explains every figure that it logs. Lists of algorithms are made of the pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config.schema import PIPELINE_OF
from ding_lite.policy import Policy
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.algorithms import ALGORITHMS
from tests.distributed.parity import create_policy
from tests.docs.test_docs import load
from tests.policy.helpers import compile_for

lists = load("make_algorithm_lists")
FOLDER = Path(__file__).parents[2] / "docs" / "algorithms"
OWN: dict[str, Any] = {name: POLICY_REGISTRY.find(name) for name in ALGORITHMS}
NAMES = sorted(name for name, cls in OWN.items() if cls.config.get("type") == name)  # without second names


@pytest.mark.parametrize("name", NAMES)
def test_a_page_names_its_class_its_type_and_its_pipeline(name: str) -> None:
    page = (FOLDER / f"{name}.md").read_text()
    for word in (OWN[name].__name__, name, PIPELINE_OF[OWN[name].learns_from]):
        assert f"`{word}`" in page
    for heading in ("The equation", "Keys that matter", "Logged figures", "Results", "Differences"):
        assert f"\n## {heading}\n" in page
    assert "**Source**" in page
    equation = page.partition("## The equation")[2].partition("\n## ")[0]
    assert "\n$$\n" in equation or "The loss is that of" in equation
    assert "\n    " not in equation


@pytest.mark.parametrize("name", NAMES)
def test_a_page_explains_every_logged_figure(name: str) -> None:
    policy = create_policy(compile_for(name))
    networks = "|".join(policy._optimizers)
    of_networks = re.compile(rf"({networks})_loss|\w+_(grad_norm|learning_rate)")  # the index explains them
    own = figures_section(FOLDER / f"{name}.md")
    told = own + (FOLDER / "README.md").read_text().partition("## Figures")[2]
    told += "".join(figures_section(FOLDER / page) for page in re.findall(r"\]\((\w+\.md)\)", own))
    figures = [figure for figure in policy.monitor_vars() if not of_networks.fullmatch(figure)]
    assert [figure for figure in figures if f"`{figure}`" not in told] == []


def figures_section(page: Path) -> str:
    return page.read_text().partition("## Logged figures")[2].partition("\n## ")[0]


def remembers(name: str) -> bool:
    """Return whether a policy may remember what it has seen of an episode, because its model or its inputs do."""
    cls = OWN[name]
    return cls.remembers or getattr(cls, "recurrent", False) or cls.see_reward is not Policy.see_reward


def recurrent_line(page: Path) -> str:
    return " ".join(page.read_text().split()).partition("Recurrent: ")[2].partition(". ")[0].rstrip(".")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_whether_its_policy_is_recurrent(name: str) -> None:
    variant = f"recurrent_{name}"
    expected = "yes" if remembers(name) else "as" if variant in NAMES else "no"
    line = recurrent_line(FOLDER / f"{name}.md")
    assert re.match(r"\w+", line)[0] == expected  # type: ignore[index]
    assert (f"({variant}.md)" in line) == (expected == "as")


@pytest.mark.parametrize("name", lists.LISTS)
def test_a_list_of_algorithms_is_up_to_date(name: str) -> None:
    assert lists.LISTS[name][0].read_text() == lists.filled(name), "out of date: run make docs"


def test_the_index_has_every_policy() -> None:
    pages = lists.read_pages()
    assert {page.type for page in pages} == set(NAMES)
    assert all(page.title and page.actions for page in pages)
    assert {page.group for page in pages} == set(lists.GROUPS)

"""Every algorithm has a page, which explains every figure that it logs, and a row in the index."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config.schema import PIPELINE_OF
from ding_lite.policy import Policy
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.distributed.parity import compile_problem, create_policy, kinds_of

FOLDER = Path(__file__).parents[2] / "docs" / "algorithms"
OWN: dict[str, Any] = {name: cls for name, cls in POLICY_REGISTRY.items() if cls.__module__.startswith("ding_lite.")}
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
    policy = create_policy(compile_problem(name, kinds_of(OWN[name])[0], []))
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


def test_recurrent_policies_are_named_as_such_by_the_index_and_the_page_of_agents() -> None:
    rows = re.findall(
        r"^\| \[[^]]+\]\((\w+)\.md\) \| `(\w+)` \|.*?\|.*?\| (\w*) ?\|", (FOLDER / "README.md").read_text(), re.M
    )
    recurrent = {name for name in NAMES if remembers(name)}
    assert {kind for _, kind, cell in rows if cell == "yes"} == recurrent
    assert [
        page for page, _, cell in rows if cell == "yes" and not recurrent_line(FOLDER / f"{page}.md").startswith("yes")
    ] == []
    section = (FOLDER.parent / "agent.md").read_text().partition("## Recurrent policies")[2].partition("\n## ")[0]
    assert recurrent == set(re.findall(r"`(\w+)`", section)) & set(NAMES)


def test_the_readme_lists_every_page() -> None:
    listed = set(re.findall(r"docs/algorithms/(\w+)\.md", (FOLDER.parents[1] / "README.md").read_text()))
    assert listed == {page.stem for page in FOLDER.glob("*.md")}


def test_the_index_has_a_row_for_every_page() -> None:
    rows = dict(re.findall(r"^\| \[[^]]+\]\((\w+)\.md\) \| `(\w+)` \|", (FOLDER / "README.md").read_text(), re.M))
    assert sorted(set(rows.values())) == NAMES
    assert set(rows) == {page.stem for page in FOLDER.glob("*.md")} - {"README"}
    assert set(NAMES) <= set(rows)

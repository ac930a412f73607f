"""Every algorithm has a page, which explains every figure that it logs, and a row in the index."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config.schema import PIPELINE_OF
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


def test_the_index_has_a_row_for_every_page() -> None:
    rows = dict(re.findall(r"^\| \[[^]]+\]\((\w+)\.md\) \| `(\w+)` \|", (FOLDER / "README.md").read_text(), re.M))
    assert sorted(set(rows.values())) == NAMES
    assert set(rows) == {page.stem for page in FOLDER.glob("*.md")} - {"README"}
    assert set(NAMES) <= set(rows)

"""Write the lists of algorithms of three pages, from the beginnings of the algorithms' own pages and from the classes.

    python docs/make_algorithm_lists.py

A page of `docs/algorithms` begins with its title, **type**, **actions** and **pipeline**, and says whether the policy
is recurrent and has priorities. A list stands between a comment with its name and `<!-- end -->`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ding_lite.utils.registry import POLICY_REGISTRY

DOCS = Path(__file__).parent
FOLDER = DOCS / "algorithms"
GROUPS = ("discrete actions", "continuous or hybrid actions", "any actions", "of several agents", "from data sets")
ACTIONS = {"`Discrete`": "discrete", "`MultiDiscrete`": "several discrete", "`Box`": "continuous", "hybrid": "hybrid"}
PIPELINES = {
    "serial_pipeline": "from replay",
    "serial_pipeline_onpolicy": "on-policy",
    "serial_pipeline_offline": "offline",
    **dict.fromkeys(("serial_pipeline_dyna", "serial_pipeline_dream"), "from replay, with a world model"),
}
NOTES = {"actors": ", one for each agent", "vae": ", a network with `encoder` and `decoder`"}  # on attributes of models


class Page(NamedTuple):
    """What an algorithm's page says of it."""

    file: str
    title: str
    type: str
    actions: str
    pipeline: str
    recurrent: bool
    priorities: bool

    @property
    def group(self) -> str:
        """The kind of algorithm, one of `GROUPS`."""
        if self.pipeline == "offline" or "data set" in self.pipeline:
            return "from data sets"
        if "agents" in self.actions:
            return "of several agents"
        if "discrete" not in self.actions:
            return "continuous or hybrid actions"
        return "any actions" if "continuous" in self.actions else "discrete actions"

    @property
    def masks(self) -> bool:
        """Whether the policy obeys masks."""
        return "discrete" in self.actions and "world model" not in self.pipeline


def read_page(path: Path) -> Page:
    """Return what the page of an algorithm says."""
    page = path.read_text(encoding="utf-8")
    text = " ".join(page.split())
    actions = text.partition("**actions** ")[2].partition("**")[0]
    pipeline = text.partition("**pipeline** ")[2].partition("Recurrent: ")[0]
    kinds = ", ".join(kind for word, kind in ACTIONS.items() if word in actions)
    source = PIPELINES[pipeline.split("`")[1]] + (" and a data set" if "data set" in pipeline else "")
    return Page(
        file=path.name,
        title=page.splitlines()[0].removeprefix("# "),
        type=text.partition("**type** `")[2].partition("`")[0],
        actions="discrete, of [several agents](../agents.md)" if "for each agent" in actions else kinds,
        pipeline=source,
        recurrent="Recurrent: yes" in text,
        priorities="Priorities: yes" in text,
    )


def read_pages() -> list[Page]:
    """Return what all pages say, in the order of `GROUPS` and of the titles."""
    pages = [read_page(path) for path in FOLDER.glob("*.md") if path.name != "README.md"]
    return sorted(pages, key=lambda page: (GROUPS.index(page.group), page.title.lower()))


def make_index() -> str:
    """Return the table of docs/algorithms/README.md."""
    rows = ["| algorithm | type | actions | pipeline | recurrent | priorities | masks |", f"|{'---|' * 7}"]
    for page in read_pages():
        cells = f"| [{page.title}]({page.file}) | `{page.type}` | {page.actions} | {page.pipeline} |"
        flags = (page.recurrent, page.priorities, page.masks)
        rows.append(cells + "".join(" yes |" if flag else " |" for flag in flags))
    return "\n".join(rows)


def make_overview() -> str:
    """Return the table of README.md."""
    rows = ["| kind | algorithms |", "|---|---|"]
    for group in GROUPS:
        links = [f"[{page.title}](docs/algorithms/{page.file})" for page in read_pages() if page.group == group]
        rows.append(f"| {group} | {', '.join(links)} |")
    return "\n".join(rows)


def make_attributes() -> str:
    """Return the table of docs/extending.md: what policies read of a model."""
    policies: dict[tuple[str, ...], list[str]] = {}
    for name, cls in sorted(POLICY_REGISTRY.items()):
        if cls.__module__.startswith("ding_lite.") and cls.model_attributes:
            policies.setdefault(tuple(cls.model_attributes), []).append(f"`{name}`")
    rows = ["| policies | attributes |", "|---|---|"]
    for attributes, names in policies.items():
        told = [f"`{each}`{NOTES.get(each, '')}" for each in attributes]
        rows.append(f"| {', '.join(names)} | {('; ' if {*attributes} & {*NOTES} else ', ').join(told)} |")
    return "\n".join(rows)


LISTS: dict[str, tuple[Path, Callable[[], str]]] = {
    "algorithms": (FOLDER / "README.md", make_index),
    "overview": (DOCS.parent / "README.md", make_overview),
    "attributes": (DOCS / "extending.md", make_attributes),
}


def filled(name: str) -> str:
    """Return the page of a list as it should be."""
    path, make = LISTS[name]
    text = path.read_text(encoding="utf-8")
    before, start, rest = text.partition(f"<!-- {name} -->\n")
    return f"{before}{start}\n{make()}\n\n{rest[rest.index('<!-- end -->') :]}"


if __name__ == "__main__":
    for name, (path, _) in LISTS.items():
        path.write_text(filled(name), encoding="utf-8")

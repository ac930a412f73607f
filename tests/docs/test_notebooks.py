"""The notebooks run from top to bottom, as a user runs them, and are stored without outputs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.launcher import ROOT, finish, start

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
EXECUTE = """
import sys
import nbclient, nbformat
book = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(book, timeout=1200, kernel_name="python3").execute()
nbformat.write(book, "executed.ipynb")
"""


def execute(name: str, folder: Path) -> list[dict[str, Any]]:
    """Run a notebook in a folder, with a kernel of its own; return the outputs of all cells."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    home = dict.fromkeys(("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"), str(folder / "home"))
    done = finish(start([sys.executable, "-c", EXECUTE, str(ROOT / "docs/notebooks" / name)], home, folder), 280)
    assert done.returncode == 0, done.stderr
    return outputs(json.loads((folder / "executed.ipynb").read_text()))


def outputs(book: dict[str, Any]) -> list[dict[str, Any]]:
    return [output for cell in book["cells"] for output in cell.get("outputs", [])]


def printed(results: list[dict[str, Any]]) -> str:
    return "".join("".join(output["text"]) for output in results if output["output_type"] == "stream")


def shown(results: list[dict[str, Any]], kind: str) -> list[str]:
    return [output["data"][kind] for output in results if kind in output.get("data", {})]


# What a notebook needs, where its run is, what it prints, and what it shows and of which kind.
RUNS = {
    "cartpole": ("matplotlib", "cartpole", "of at most 500 steps", "image/png", ""),
    "pendulum_video": ("moviepy", "pendulum", "in 200 steps", "text/html", "data:video/mp4;base64,"),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_solves_its_task_and_shows_how(path: Path, tmp_path: Path) -> None:
    package, run, words, kind, content = RUNS[path.stem]
    pytest.importorskip(package)
    results = execute(path.name, tmp_path)
    assert json.loads((tmp_path / run / "result.json").read_text())["stop_reason"] == "stop_value"
    assert words in printed(results)
    (page,) = shown(results, kind)
    assert content in "".join(page)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    assert outputs({"cells": cells}) == []
    assert {cell.get("execution_count") for cell in cells} == {None}

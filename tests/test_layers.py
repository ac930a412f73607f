"""The layers of docs/architecture.md hold for every import, relative ones and those inside functions too."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "utils": set(),
    "rl_utils": set(),
    "torch_utils": {"utils"},
    "envs": {"utils"},
    "config": {"utils", "envs"},
    "model": {"torch_utils", "utils"},
    "policy": {"model", "rl_utils", "torch_utils", "utils"},
    "worker": {"envs", "rl_utils", "torch_utils", "utils"},  # rl_utils: the n-step sums of replay and data sets
    "entry": {"config", "envs", "model", "policy", "rl_utils", "torch_utils", "utils", "worker"},
}
FILES = sorted((ROOT / "ding_lite").rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Return the dotted names of all modules that a file imports."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_layers(path):
    parts = path.relative_to(ROOT / "ding_lite").parts
    assert not [name for name in imported(path) if name.split(".")[0] in ("dizoo", "tests")]
    if len(parts) == 1:
        return  # ding_lite/__init__.py and __main__.py stand above the layers
    layer = parts[0]
    layers = {name.split(".")[1] for name in imported(path) if name.startswith("ding_lite.")} & set(ALLOWED)
    assert layers <= ALLOWED[layer] | {layer}


def test_every_package_is_in_the_table():
    packages = {path.parent.name for path in (ROOT / "ding_lite").glob("*/__init__.py")}
    assert packages == set(ALLOWED)


def test_the_walk_sees_relative_imports_and_those_inside_functions(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / "ding_lite" / "worker" / "new.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "from ..policy import Policy\ndef f():\n    from ding_lite import entry\n    from . import learner\n"
    )
    assert {"ding_lite.policy", "ding_lite.worker.learner", "ding_lite.entry"} <= imported(path)


@pytest.mark.parametrize("module", ["ding_lite", "ding_lite.utils", "ding_lite.envs", "ding_lite.utils.registry"])
def test_what_environment_workers_import_does_not_load_torch(module):
    code = f"import {module}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0

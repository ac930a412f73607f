"""The layers of docs/architecture.md hold for every import, relative ones and those inside functions too."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ding_lite.utils.registry import registered_names

ROOT = Path(__file__).parents[1]


def read_tables() -> tuple[set[str], dict[str, set[str]]]:
    """Return the packages of the kernel, and what each package may import, from the tables of docs/architecture.md."""
    page = (ROOT / "docs/architecture.md").read_text().partition("## Layers")[2].partition("\n## ")[0]
    kernel, allowed = set[str](), dict[str, set[str]]()
    for table in page.split("|---|---|---|")[1:]:
        for package, words in re.findall(r"^\| `(\w+)` \|.*\| (.*) ?\|$", table.partition("\n\n")[0], re.M):
            below = set(allowed) if words.strip() == "all of the above" else set(re.findall(r"`(\w+)`", words))
            allowed[package] = below | kernel
        kernel = kernel or set(allowed)
    return kernel, allowed


KERNEL, ALLOWED = read_tables()
# Rooms that a function of the kernel imports, and what asks for them.
ON_DEMAND = {
    ("config/config.py", "di_engine"): "a config has a key, type or value that the classes do not know",
    ("envs/vector_env.py", "trained"): "env.replay_path",
    ("policy/base.py", "di_engine"): "code of DI-engine asks for `learn_mode` or its kin",
    ("run/experiment.py", "actors"): "policy.collect.actors",
    ("torch_utils/gradient.py", "gpu"): "policy.data_parallel, policy.compile, policy.cuda_graph",
    ("worker/replay/buffer.py", "actors"): "policy.collect.actors",
}
FILES = sorted((ROOT / "ding_lite").rglob("*.py"))
PUBLIC = [path for path in FILES if "lazy_names(__name__" in path.read_text()]  # lists of public names


@functools.cache
def imports(path: Path) -> list[tuple[str, str]]:
    """Return what a file imports: a module, and the name that is taken from it, empty for the module itself."""
    package, found = path.relative_to(ROOT).with_suffix("").parts[:-1], list[tuple[str, str]]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            found += [(module, alias.name) for alias in node.names]
    by_name = re.findall(r'import_module\(f?"(ding_lite\.\w+)', path.read_text())  # not before a function needs it
    return found + [(module, "") for module in by_name]


def imported(path: Path) -> set[str]:
    """Return the dotted names of all that a file imports: modules, and what is taken from them."""
    return {name for module, taken in imports(path) for name in (module, f"{module}.{taken}".rstrip("."))}


def test_imports_follow_the_layers() -> None:
    exits = set[tuple[str, str]]()
    for path in FILES:
        names = imported(path)
        assert not [name for name in names if name.split(".")[0] in ("dizoo", "tests")], path
        layer, *files = path.relative_to(ROOT / "ding_lite").parts
        layers = {name.split(".")[1] for name in names if name.startswith("ding_lite.")} & {*ALLOWED, "entry"}
        if files and path not in PUBLIC:  # ding_lite/__init__.py and __main__.py stand above the layers
            exits |= {("/".join((layer, *files)), other) for other in layers - ALLOWED[layer] - {layer}}
    assert exits == set(ON_DEMAND)


def test_every_package_is_in_a_table() -> None:
    packages = {path.parent.name for path in (ROOT / "ding_lite").glob("*/__init__.py")}
    assert packages == {*ALLOWED, "entry"}


def test_relative_imports_and_those_inside_functions_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / "ding_lite" / "worker" / "new.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "from ..policy import Policy\ndef f():\n    from ding_lite import entry\n    from . import learner\n"
    )
    assert {"ding_lite.policy", "ding_lite.worker.learner", "ding_lite.entry"} <= imported(path)


def test_the_commands_about_results_start_fast() -> None:
    """Reading results needs no torch, and the packages of the extra `plot` are loaded when they are used."""
    rooms = [path for path in FILES if path.parent.name == "results"]
    rooms += [ROOT / "ding_lite/cli/results.py"]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in rooms]
    code = f"import sys, {', '.join(names)}; sys.exit(bool({{'torch', 'scipy', 'matplotlib'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def modules_of_the_package() -> dict[str, Path]:
    """Return the files of all modules under their dotted names."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in FILES}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


def test_no_ring_of_imports_exists() -> None:
    """Imports inside functions and for types alone count too: a ring of them is as hard to follow."""
    files = modules_of_the_package()
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        pairs = ((module, f"{module}.{taken}") for module, taken in imports(path))
        graph[name] = {whole if whole in files else module for module, whole in pairs} & set(files)
    graphlib.TopologicalSorter(graph).prepare()  # raises an error that names the ring


RUN = """
import importlib, sys
from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
config = importlib.import_module(sys.argv[1])
pipeline = serial_pipeline_onpolicy if "ppo" in sys.argv[1] else serial_pipeline
pipeline((config.main_config, config.create_config), seed=0, max_train_iter=2)
print(*(name for name in sys.modules if name.startswith("ding_lite.")))
"""


@pytest.mark.parametrize("name", ["cartpole_dqn", "pendulum_ppo", "pendulum_sac"])
def test_a_plain_run_loads_few_modules_and_none_of_a_room(name: str) -> None:
    command = [sys.executable, "-c", RUN, f"dizoo.classic_control.{name.partition('_')[0]}.config.{name}_config"]
    run = subprocess.run(command, timeout=120, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    modules = run.stdout.splitlines()[-1].split()
    assert {module.split(".")[1] for module in modules} <= KERNEL | {"entry", "lazy"}
    assert len(modules) < 120 or name != "cartpole_dqn"
    assert not {*registered_names()["WRAPPER_REGISTRY"].values()} & {*modules}

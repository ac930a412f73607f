"""What the pages say holds: links lead somewhere, commands name files that exist, code runs, counts are current."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.distributed.launcher import finish, run_forked, start
from tests.run.helpers import result as result_of

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"(?:^\|.*\n)+", re.M)
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts),
        ROOT / "tests/benchmarks/README.md",
    ]
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")

CONFIG = """
env = dict(env_id="tests.seams.corridors:Corridor-v0", kwargs=dict(length=5.0))
main_config = dict(exp_name="corridor", env=env, policy=dict(random_collect_size=400))
create_config = dict(
    env=dict(type="gymnasium"),
    env_manager=dict(type="base"),
    policy=dict(type="boltzmann_dqn", import_names=["boltzmann"]),
)
"""


def load(name: str) -> ModuleType:
    """Import a script of docs/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


def run(words: list[str], cwd: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS` in a directory; modules are found there and in the repository."""
    return run_forked(words, 280, {"PYTHONPATH": f"{cwd}{os.pathsep}{ROOT}"}, cwd, status)


def follow(command: str, cwd: Path) -> str:
    """Run a command line of a page, of `ding_lite` or of python; return what it prints."""
    name, *words = shlex.split(command, comments=True)
    assert name in ("ding_lite", "python")
    return run(["-m", "ding_lite", *words] if name == "ding_lite" else words, cwd).stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_commands_tables_and_python_blocks_of_a_page_hold(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if not link.startswith("http")]
    assert [link for link in links if not (page.parent / link.partition("#")[0]).exists()] == []
    commands = "\n".join(blocks(page, "sh")) + "\n".join(re.findall(r"`([^`\n]+)`", page.read_text()))
    files = set(re.findall(r"(?<![\w/.])(?:dizoo|docs|tests)/[\w/]+\.(?:py|txt|md)\b", commands))
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []
    modules = {name.replace(".", "/") for name in re.findall(r"-m (tests\.benchmarks\.\w+)", commands)}
    assert [name for name in sorted(modules) if not (ROOT / f"{name}.py").exists()] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([a-z-]+)", commands)) <= targets
    for number, text in enumerate(blocks(page, "python")):
        compile(text, f"{page.name}, python block {number}", "exec")
    for table in TABLE.findall(page.read_text()):
        rows = table.splitlines()
        assert len(rows) > 2, rows
        assert re.fullmatch(r"(\|-+)+\|", rows[1]), rows[0]
        assert {cells(row) for row in rows} == {cells(rows[1])}, rows[0]


def cells(row: str) -> int:
    """Count the cells of a row; `\\|` is a character, not a border."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1


def test_readme_leads_to_the_index_and_the_index_to_every_page() -> None:
    readme = linked(ROOT / "README.md")
    assert {ROOT / "docs/index.md", *ROOT.glob("*.md")} - {ROOT / "README.md"} <= readme
    index = linked(ROOT / "docs/index.md")
    links = [link.partition("#")[0] for link in LINK.findall((ROOT / "docs/index.md").read_text())]
    assert sorted(set(links)) == sorted(links)  # each once
    found = index | {page for folder in index if folder.name == "README.md" for page in linked(folder)}
    of_the_site = {ROOT / "docs/site" / name for name in ("changelog.md", "contributing.md")}
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")} | set((ROOT / "docs").rglob("*.ipynb"))
    assert pages - {ROOT / "docs/index.md"} - of_the_site - found == set()


def linked(page: Path) -> set[Path]:
    """Return the files to which a page has links."""
    return {(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(page.read_text())}


@pytest.mark.slow
def test_quickstart_trains_from_python_as_printed(tmp_path: Path) -> None:
    text = blocks(ROOT / "docs/quickstart.md", "python")[0]
    assert "    seed=0,\n" in text
    (tmp_path / "train.py").write_text(text.replace("    seed=0,\n", "    seed=0,\n    max_env_step=400,\n"))
    (tmp_path / "dizoo").symlink_to(ROOT / "dizoo")
    result = run(["train.py"], tmp_path)
    directory, best, last, again = result.stdout.split()
    assert directory == "from_python"
    assert 8 <= float(last) <= float(best) <= 500
    assert 8 <= float(again) <= 500


@pytest.mark.slow
def test_quickstart_config_runs_as_printed(tmp_path: Path) -> None:
    text = blocks(ROOT / "docs/quickstart.md", "python")[1]
    assert "max_env_step=2000" in text
    (tmp_path / "my_cartpole.py").write_text(text.replace("max_env_step=2000", "max_env_step=400"))
    run(["my_cartpole.py"], tmp_path)
    assert result_of(tmp_path / "my_cartpole")["train_iter"] > 100


def test_architecture_policy_learns_an_environment_as_printed(tmp_path: Path) -> None:
    (tmp_path / "boltzmann.py").write_text(blocks(ROOT / "docs/architecture.md", "python")[0])
    (tmp_path / "run.py").write_text(CONFIG)
    options = ["policy.temperature=1.0", "policy.eval.evaluator.eval_freq=100", "env.stop_value=1"]
    run(["-m", "ding_lite", "-c", "run.py", "max_env_step=3000", *options], tmp_path)
    # whoever always walks on wins, 1, within 7 of 12 steps; chance hardly ever does
    assert result_of(tmp_path / "corridor")["eval_return_best"] == 1.0


def test_readme_trains_from_python_and_from_the_shell_as_printed(tmp_path: Path) -> None:
    text = blocks(ROOT / "README.md", "python")[0]
    assert "max_env_step=20_000" in text
    (tmp_path / "my_cartpole.py").write_text(text.replace("max_env_step=20_000", "max_env_step=400"))
    result = run(["my_cartpole.py"], tmp_path)
    best, again = map(float, result.stdout.split())
    assert 8 <= best <= 500
    assert 8 <= again <= 500
    train, evaluate, plot = blocks(ROOT / "README.md", "sh")[1].splitlines()
    follow(train.replace("max_env_step=20000", "max_env_step=400"), tmp_path)
    results = [result_of(path) for path in tmp_path.glob("my_cartpole*") if path.is_dir()]
    assert [told["eval_return_best"] for told in results] == [best, best]  # the same run in two ways
    assert "over 20 episodes" in follow(evaluate, tmp_path)
    pytest.importorskip("matplotlib")
    assert (tmp_path / follow(plot, tmp_path).strip()).is_file()


def test_readme_shows_what_a_misspelt_key_says(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text()
    (tmp_path / "my_cartpole.py").write_text(blocks(ROOT / "README.md", "python")[0])
    words = ["-m", "ding_lite", "-c", "my_cartpole.py", "policy.learn.bacth_size=16"]
    result = run(words, tmp_path, status=2)
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.strip() in page


@pytest.mark.slow
def test_reading_cost_stays_within_goals_or_record() -> None:
    result = finish(start([sys.executable, "docs/reading_cost.py", "--check"], cwd=ROOT), 120)
    print(result.stdout)
    assert result.returncode == 0, result.stderr
    counts = load("reading_cost").read_page(result.stdout)
    for name in ("DQN", "PPO"):
        turn = {one.name for one in counts[name].turn}
        assert {"ding_lite/worker/collector.py", "ding_lite/worker/learner.py", "ding_lite/policy/base.py"} <= turn

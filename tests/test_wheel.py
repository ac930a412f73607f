"""The wheel has the package and dizoo's configs, and no tests; what is installed from it trains in any directory."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.distributed.launcher import ROOT, finish, start

SOURCES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "ding_lite", "dizoo")
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, because setuptools writes into the sources' directory."""
    folder = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    out = tmp_path_factory.mktemp("wheel")
    command = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(out), "."]
    done = finish(start(command, cwd=folder), timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = out.iterdir()
    return path


def test_the_wheel_contains_every_module_and_config_and_nothing_else(wheel: Path) -> None:
    files = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    ours = {path.relative_to(ROOT).as_posix() for top in ("ding_lite", "dizoo") for path in (ROOT / top).rglob("*.py")}
    assert files == ours
    assert "dizoo/atari/pong_dqn_ddp_config.py" in files


def test_the_wheel_names_its_command_and_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        texts = {name.partition(".dist-info/")[2]: name for name in archive.namelist()}
        assert b"ding_lite = ding_lite.cli.main:main" in archive.read(texts["entry_points.txt"])
        metadata = archive.read(texts["METADATA"]).decode()
    assert "\nRequires-Python: >=3.11\n" in metadata
    assert any(name.endswith("LICENSE") for name in texts)


def test_the_oldest_dependencies_that_ci_tests_are_those_declared(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        needs = [
            Requirement(line.partition(": ")[2])
            for line in archive.read(name).decode().splitlines()
            if line.startswith("Requires-Dist: ") and "extra ==" not in line
        ]
    declared = {need.name.lower(): Version(str(need.specifier).removeprefix(">=")) for need in needs}
    lines = (ROOT / "tests/oldest-requirements.txt").read_text().splitlines()
    pinned = dict(line.lower().split("==") for line in lines if not line.startswith("#"))
    assert {name: Version(version) for name, version in pinned.items()} == declared


@pytest.mark.slow
def test_an_installed_wheel_trains_in_any_directory(wheel: Path, tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = finish(start([*PIP, "install", "--no-deps", "--no-index", "--target", str(target), str(wheel)]), timeout=60)
    assert done.returncode == 0, done.stderr
    config = target / "dizoo/classic_control/cartpole/config/cartpole_ppo_config.py"
    main = "import sys; import ding_lite.cli.main as main; print(main.__file__); main.main(sys.argv[1:])"
    command = [sys.executable, "-c", main, "-c", str(config), "exp_name=small", "max_env_step=80"]
    small = ["policy.collect.n_sample=40", "policy.learn.batch_size=40", "env.n_evaluator_episode=2"]
    env = {"PYTHONPATH": str(target)}  # without the checkout
    done = finish(start([*command, *small, "env.evaluator_env_num=2"], env, elsewhere), timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(target))
    assert json.loads((elsewhere / "small/result.json").read_text())["envstep"] == 80

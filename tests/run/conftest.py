"""Every test here starts in an empty directory of its own, on one thread. `run_directory` is that of a short run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.run import setup
from tests.run.helpers import run


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # commands add the current directory
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        run()
    return folder / "run"


@pytest.fixture
def run_directory(trained: Path, empty_directory: Path) -> Path:
    shutil.copytree(trained, empty_directory / "run")
    return Path("run")


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No environment is started and no directory of a run is made."""
    started: list[Any] = []
    monkeypatch.setattr(setup, "create_vector_env", lambda *args, **options: started.append(args))
    yield
    assert not started
    assert not [*tmp_path.rglob("job.json"), *tmp_path.rglob("log")]

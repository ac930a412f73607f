"""Every test here starts in an empty directory with a trained run in `run`, on one thread."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.entry.helpers import run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        run()
    return folder / "run"


@pytest.fixture
def run_directory(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    shutil.copytree(trained, "run")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Path("run")
    torch.set_num_threads(before)

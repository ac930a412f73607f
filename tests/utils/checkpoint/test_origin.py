"""A run records what it was made by, at every start, and a report shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import ding_lite
from ding_lite.utils.checkpoint.origin import describe_origin, read_origins
from tests.distributed.launcher import run_forked
from tests.run.helpers import CONFIG, SHORT


def git(*words: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *identity, *words], check=True, capture_output=True, text=True).stdout.strip()


def test_every_start_is_recorded_and_reported() -> None:
    git("init")
    for name in ("one.txt", "two.txt"):
        Path(name).write_text("first")
    git("add", ".")
    git("commit", "-m", "first")
    Path("one.txt").write_text("second")
    start = ["-c", str(CONFIG), *SHORT, "max_env_step=80"]
    for words in (start, ["resume", "run", "max_env_step=160"], ["report", "run"]):
        run_forked(["-m", "ding_lite", *words])
    first, second = read_origins("run")
    assert first["git_commit"] == second["git_commit"] == git("rev-parse", "HEAD")
    assert first["git_changed_files"] == 1
    assert first["command"].endswith("max_env_step=80")
    assert "resume run max_env_step=160" in second["command"]
    versions = {"ding_lite": ding_lite.__version__, "torch": torch.__version__, "numpy": np.__version__}
    assert versions.items() <= first.items()
    assert first["host"]
    assert first["processor"]
    assert (first["device"], first["processes"]) == ("cpu", 1)
    (report,) = Path().glob("*.html")
    text = report.read_text()
    assert text.count("<summary>Origin of run</summary>") == 2
    assert first["git_commit"] in text


def test_a_directory_without_git_and_passwords_are_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py", "--storage=postgresql://ann:secret@host/db"])
    origin = describe_origin()
    assert origin["git_commit"] is origin["git_changed_files"] is None
    assert "secret" not in origin["command"]
    assert "host/db" in origin["command"]

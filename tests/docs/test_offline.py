"""What docs/offline.md prints, run in its order: an expert, its record, and what learns from that."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.distributed.launcher import ROOT, finish, start
from tests.docs.test_docs import BLOCK

PAGE = ROOT / "docs" / "offline.md"


@pytest.mark.learn
def test_the_commands_of_the_page_run_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "dizoo").symlink_to(ROOT / "dizoo")
    commands: list[list[str]] = []
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            (tmp_path / f"block{len(commands)}.py").write_text(text)
            commands.append([sys.executable, f"block{len(commands)}.py"])
        elif kind == "sh":
            lines = text.replace("\\\n", "").splitlines()
            commands += [[sys.executable, "-m", *shlex.split(line)] for line in lines]
    assert len(commands) == 6
    for command in commands:
        done = finish(start(command, cwd=tmp_path), 200)
        assert done.returncode == 0, done.stderr[-3000:]
    results = [json.loads(path.read_text()) for path in tmp_path.glob("*/result.json")]
    assert sorted(told["world_size"] for told in results) == [1, 1, 1, 2]
    assert {told["stop_reason"] for told in results} <= {"stop_value", "train_epoch", "max_train_iter"}
    assert all(told["eval_return_best"] > 150 for told in results)

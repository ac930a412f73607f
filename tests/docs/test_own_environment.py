"""The tutorial of docs/tutorials/own_environment.md, followed as it is printed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.distributed.launcher import ROOT, run_forked
from tests.docs.test_docs import blocks
from tests.docs.test_extending import write_files

PAGE = ROOT / "docs" / "tutorials" / "own_environment.md"


def follow(command: str, folder: Path) -> str:
    """Run a command of the page in a folder; return what it prints."""
    words = shlex.split(command)
    words[:1] = ["-m", "ding_lite"] if words[0] == "ding_lite" else []
    done = run_forked(words, 280, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_tutorial_ends_with_a_courier_that_takes_the_shortest_way(tmp_path: Path) -> None:
    assert write_files(PAGE, tmp_path) == ["courier.py", "check.py", "courier_config.py", "watch.py"]
    check, train, watch = (block.strip() for block in blocks(PAGE, "sh"))
    assert "keeps gymnasium's rules" in follow(check, tmp_path)
    follow(train, tmp_path)
    result = json.loads((tmp_path / "courier/result.json").read_text())
    assert result["stop_reason"] == "stop_value"
    assert result["eval_return_best"] == -4  # two cells in two directions, -1 each
    lines = follow(watch, tmp_path).splitlines()
    assert [line.partition(": ")[2].partition(",")[0] for line in lines] == ["4 steps"] * 3

"""The code of docs/datasets.md, run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.distributed.launcher import ROOT, run_forked, run_ranks
from tests.docs.test_docs import blocks
from tests.docs.test_extending import write_files

PAGE = ROOT / "docs" / "datasets.md"


def test_the_plain_loop_trains(tmp_path: Path) -> None:
    assert write_files(PAGE, tmp_path) == ["plain_loop.py", "several_ranks.py"]
    done = run_forked(["plain_loop.py"], 120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = re.fullmatch(r"(\d+) env steps, (\S+) episodes\n", done.stdout)
    assert told is not None, done.stdout
    envstep, episodes = map(float, told.groups())
    assert envstep >= 100 * 40  # as many steps as samples at least
    assert episodes > 0


def test_two_ranks_step_together(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    assert "torchrun --nproc_per_node=2 several_ranks.py\n" in blocks(PAGE, "sh")
    done = run_ranks(tmp_path / "several_ranks.py", timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sums = re.findall(r"^rank (\d): (\S+)$", done.stdout, re.M)
    assert {rank for rank, _ in sums} == {"0", "1"}
    assert len({value for _, value in sums}) == 1

"""Four hundred damaged checkpoints, none of which is misread."""

import subprocess
import sys

from tests.distributed.launcher import ROOT


def test_no_damaged_checkpoint_is_misread() -> None:
    command = [sys.executable, "-m", "tests.survival.fuzz_checkpoints", "--number", "400", "--seed", "0"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    assert run.stdout.endswith("400 items: none was misread\n")
    assert " store: iteration_10\n" in run.stdout  # damage was seen
    assert " store: iteration_20\n" in run.stdout  # and was harmless

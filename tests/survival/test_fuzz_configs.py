"""A thousand spoilt config files, each of which is refused by one clear line, or runs."""

import subprocess
import sys

from tests.distributed.launcher import ROOT


def test_no_spoilt_config_ends_in_the_depths() -> None:
    words = ["--number", "1000", "--seed", "0", "--runs", "10", "--processes", "1"]
    command = [sys.executable, "-m", "tests.survival.fuzz_configs", *words]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    assert run.stdout.endswith("1000 items: each a clear error, or it runs\n")
    assert " all: refused\n" in run.stdout
    assert " all: runs\n" in run.stdout

"""The Lightning example reaches its goal on two processes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.distributed.launcher import ROOT, finish, start


@pytest.mark.learn
@pytest.mark.timeout(600)
def test_cartpole_is_solved(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="needs the extra lightning")
    script = ROOT / "dizoo" / "classic_control" / "cartpole" / "entry" / "cartpole_a2c_lightning.py"
    done = finish(start([sys.executable, str(script)], cwd=tmp_path), timeout=550)
    assert done.returncode == 0, done.stderr
    assert "max_steps" not in done.stdout + done.stderr
    returns = [float(number) for number in re.findall(r"return: (\d+\.\d+)", done.stdout)]
    assert returns[-1] >= 195

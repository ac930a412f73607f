"""The command sweep: its extra, and its start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ding_lite.utils.registry import UserError
from tests.cli.commands import call
from tests.run.helpers import CONFIG

RATE = "policy.learn.learning_rate=1e-4..1e-2:log"


def test_a_missing_optuna_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"This needs the extra 'sweep' .*optuna.*: pip install 'ding_lite\[sweep\]'"):
        call("sweep", "-c", str(CONFIG), RATE)


def test_the_command_starts_fast() -> None:
    code = "import sys, ding_lite.cli.train; sys.exit(bool({'torch', 'optuna', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0

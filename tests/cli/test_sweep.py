"""The command sweep: mistakes, and two processes that share a journal, one of which is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ding_lite.config import compile_config
from ding_lite.utils.registry import UserError
from tests.cli.commands import call
from tests.distributed.launcher import finish, start_forked
from tests.entry.helpers import CONFIG
from tests.survival.common import wait_until

RATE = "policy.learn.learning_rate=1e-4..1e-2:log"


def test_a_missing_optuna_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"This needs the extra 'sweep' .*optuna.*: pip install 'ding_lite\[sweep\]'"):
        call("sweep", "-c", str(CONFIG), RATE)


def test_the_command_starts_fast() -> None:
    code = "import sys, ding_lite.cli.train; sys.exit(bool({'torch', 'optuna', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.slow
def test_of_two_processes_one_is_killed_and_the_other_continues_its_trial(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    hasty = (
        "from ding_lite.cli.main import main; from ding_lite.sweep import study; study.HEARTBEAT, study.GRACE = 1, 3"
    )
    command = ["-c", f"{hasty}; main()", "sweep", "-c", str(CONFIG), RATE, "policy.learn.batch_size=8,16"]
    command += ["--trials", "2", "-o", "mine", "max_env_step=800", "policy.eval.evaluator.eval_freq=50"]
    killed, other = start_forked(command), start_forked(command)
    # each has one of the two trials
    wait_until(lambda: len(list(tmp_path.glob("mine/trial_*/metrics.jsonl"))) == 2, killed, 300)
    killed.send_signal(signal.SIGKILL)
    finish(killed, timeout=60)
    done = finish(other, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[2] for line in lines[1:3]] == ["complete", "complete"], done.stderr
    assert len(list(tmp_path.glob("mine/trial_*/result.json"))) >= 2
    ended = [json.loads(path.read_text())["stop_reason"] for path in tmp_path.glob("mine/trial_*/result.json")]
    assert ended.count("max_env_step") >= 2
    cfg = compile_config(tmp_path / "mine" / "best_config.py")
    assert cfg.policy.learn.batch_size in (8, 16)

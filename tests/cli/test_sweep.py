"""The command sweep: its extra, and its start."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ding_lite.cli.together import RunsInStep
from ding_lite.utils.registry import UserError
from tests.cli.commands import call, mistake
from tests.distributed.launcher import run_forked
from tests.run.helpers import CONFIG, SHORT, result

RATE = "policy.learn.learning_rate=1e-4..1e-2:log"


def test_a_missing_optuna_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"This needs the extra 'sweep' .*optuna.*: pip install 'ding_lite\[sweep\]'"):
        call("sweep", "-c", str(CONFIG), RATE)


def test_the_command_starts_fast() -> None:
    code = "import sys, ding_lite.cli.train; sys.exit(bool({'torch', 'optuna', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.slow
def test_trials_train_in_step_seed_after_seed(tmp_path: Path) -> None:
    rates = "policy.learn.learning_rate=0.001,0.003"
    words = ["sweep", "-c", str(CONFIG), rates, "--sampler", "grid", "-s", "3", "5", "--together", "-o", "grid"]
    done = run_forked(["-m", "ding_lite", *words, *SHORT[1:], "max_env_step=320", "env.stop_value=None"], 300)
    assert done.stderr.count("2 runs in step: losses and gradients take") == 2  # a group for each seed
    with open(tmp_path / "grid" / "trials.csv") as file:
        trials = {row["trial"]: row for row in csv.DictReader(file)}
    assert sorted(row["policy.learn.learning_rate"] for row in trials.values()) == ["0.001", "0.003"]
    for number, row in trials.items():
        runs = [tmp_path / "grid" / f"trial_{int(number):04}_seed{seed}" for seed in (3, 5)]
        assert [result(run)["envstep"] for run in runs] == [320, 320]
        alone = ["train", "-c", str(CONFIG), "-s", "3", *SHORT[1:], "max_env_step=320", "env.stop_value=None"]
        alone += [f"policy.learn.learning_rate={row['policy.learn.learning_rate']}", f"exp_name=alone{number}"]
        run_forked(["-m", "ding_lite", *alone], 300)
        first, last = [_evaluations(path) for path in (tmp_path / f"alone{number}", runs[0])]
        assert first == pytest.approx(last)
        assert len(first) > 1


def _evaluations(folder: Path) -> list[float]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [record["eval/return_mean"] for record in records if "eval/return_mean" in record]


def test_runs_in_step_wait_for_all_that_are_active_and_end_at_a_signal() -> None:
    starter = RunsInStep(2)
    run = starter.start(["train", "-c", "never_read.py", "-s", "0"], "trial_0000_seed0")
    starter.wait(2, lambda: None)  # the other has not started
    assert run.status is None
    run.send_signal(signal.SIGTERM)
    assert run.status == 128 + signal.SIGTERM
    starter.wait(1, lambda: None)
    starter.wait(0, lambda: None)  # nothing waits: another process has the last trials
    assert run.status == 128 + signal.SIGTERM


def test_an_error_ends_a_run_in_step_and_is_its_last_line() -> None:
    starter = RunsInStep(2)
    runs = [starter.start(["train", "-c", f"{name}.py", "-s", "0"], name) for name in ("one", "two")]
    starter.wait(2, lambda: None)
    assert [run.status for run in runs] == [2, 2]
    assert "one.py" in runs[0].last_line()
    assert "two.py" in runs[1].last_line()


@pytest.mark.parametrize("words", [["--nproc", "2"], ["--submit", "local"], ["--max-restarts", "1"]])
def test_other_processes_do_not_fit_together(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    line = mistake(capsys, "sweep", "-c", str(CONFIG), RATE, "--together", *words)
    assert "--together trains trials in this process" in line
    assert "expected --jobs >= 2" in mistake(capsys, "sweep", "-c", str(CONFIG), RATE, "--together", "--jobs", "1")

"""Seeds and trials as jobs of submitit's local executor: preempted, cancelled, of several tasks, and failing."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest

from ding_lite.utils.registry import UserError
from tests.cli.commands import call
from tests.distributed.launcher import ROOT, finish, run_forked, start_forked
from tests.run.helpers import CONFIG, SHORT, metrics, result
from tests.survival.common import wait_until

QUICK = [*SHORT[1:], "env.stop_value=None"]
TRAIN = ["-m", "ding_lite", "train", "-c", str(CONFIG), "--submit", "local"]
# A wrapper whose run gets its job preempted, once: in the middle, or in the first evaluation, where it is also killed.
PREEMPTED = """
import os, signal, sys
from pathlib import Path
import gymnasium

class Preempted(gymnasium.Wrapper):
    steps = 0

    def step(self, action):
        Preempted.steps += 1
        if self.is_time() and not Path("preempted").exists():
            Path("preempted").touch()
            os.kill(os.getppid(), signal.SIGUSR1)
            if KILLED:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.env.step(action)

    def is_time(self):
        directory = [word.partition("=")[2] for word in sys.argv if word.startswith("exp_name=")][-1]
        return Path(directory, "total_config.py").exists() if KILLED else Preempted.steps == 400
"""


@pytest.mark.parametrize(
    ("killed", "says"), [(False, "ended (interrupted)"), (True, "the run starts from the beginning")]
)
def test_a_preempted_job_resumes_and_the_table_is_that_of_one_machine(
    killed: bool, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "preempted_env.py").write_text(PREEMPTED.replace("KILLED", str(killed)))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    words = ["-s", "0", "1", *QUICK, "exp_name=run", "max_env_step=800", "env.wrappers=['preempted_env:Preempted']"]
    done = run_forked([*TRAIN, *words], 240)
    logs = [(tmp_path / f"run_seed{seed}/log/log.txt").read_text() for seed in (0, 1)]
    assert sum(says in log for log in logs) == 1, logs
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [[seed, "max_env_step", "800"] for seed in "01"]
    assert lines[4] == "directories run_seed0, run_seed1"
    for seed in (0, 1):
        iterations = [
            line["train_iter"] for line in metrics(tmp_path / f"run_seed{seed}") if "train/total_loss" in line
        ]
        assert iterations == sorted(set(iterations))
        steps = [line["envstep"] for line in metrics(tmp_path / f"run_seed{seed}") if "eval/return_mean" in line]
        assert steps == sorted(set(steps))
    assert not (tmp_path / "jobs").exists()


@pytest.mark.slow
def test_cancelled_jobs_save_and_go_on(tmp_path: Path) -> None:
    words = ["-s", "0", "1", *QUICK, "exp_name=run", "policy.learn.learner.hook.save_ckpt_after_iter=100"]
    process = start_forked([*TRAIN, *words, "max_env_step=100000"])
    parts = [f"run_seed{seed}/ckpt/*.rank_0.pth.tar" for seed in (0, 1)]
    wait_until(lambda: all(list(tmp_path.glob(part)) for part in parts), process, 240)
    process.send_signal(signal.SIGINT)
    done = finish(process, timeout=240)
    assert done.returncode == 128 + signal.SIGINT
    ways = [f"seed {seed} interrupted: continue with ding_lite resume run_seed{seed}" for seed in (0, 1)]
    assert sorted(done.stderr.split("\n"))[-2:] == ways
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run_seed0", "run_seed1"]
    steps = max(result(tmp_path / f"run_seed{seed}")["envstep"] for seed in (0, 1)) + 80
    done = run_forked([*TRAIN, *words, "--resume", f"max_env_step={steps}"], 240)
    assert [result(tmp_path / f"run_seed{seed}")["envstep"] for seed in (0, 1)] == [steps, steps]


@pytest.mark.slow
def test_the_tasks_of_a_trials_job_are_ranks_of_one_run(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    words = ["sweep", "-c", str(CONFIG), "policy.nstep=1,3", "--sampler", "grid", "-o", "mine", "--submit", "local"]
    words += ["--divide", "submit.tasks_per_node=2", *QUICK, "max_env_step=320"]
    run_forked(["-m", "ding_lite", *words], 240)
    runs = sorted(tmp_path.glob("mine/trial_*"))
    assert [(result(run)["world_size"], result(run)["envstep"]) for run in runs] == [(2, 320), (2, 320)]
    assert not (tmp_path / "mine/jobs").exists()


@pytest.mark.slow
def test_a_job_that_fails_says_why_and_keeps_its_files(tmp_path: Path) -> None:
    done = run_forked([*TRAIN, "-s", "0", *QUICK, "exp_name=run", "env.env_id=Nope-v1"], 240, status=2)
    assert done.stderr.startswith("seed 0 failed: env.env_id 'Nope-v1'")
    assert list(tmp_path.glob("jobs/*_log.err"))


def test_what_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = ("train", "-c", str(CONFIG), "--submit", "slurm")
    if not shutil.which("srun"):
        with pytest.raises(UserError, match=r"^--submit slurm: this machine has no SLURM, srun was not found\. .*$"):
            call(*words)
    monkeypatch.setitem(sys.modules, "submitit", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"--submit needs the extra 'slurm' .*: pip install 'ding_lite\[slurm\]'"):
        call(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "word",
    [
        "slurm_comment=a\ntouch x #",
        "slurm_comment='a\\ntouch x #'",
        "slurm_setup=['module load x', 'a\\rtouch x']",
        "slurm_additional_parameters={'a\\ntouch x': 1}",
        "slurm_additional_parameters={'wckey': ['\\x1b[2J']}",
    ],
)
def test_an_option_is_no_line_of_a_jobs_script(word: str, tmp_path: Path) -> None:
    words = ("train", "-c", str(CONFIG), "--submit", "local", f"submit.{word}")
    with pytest.raises(UserError, match=r"^submit\.slurm_[\w.]*: expected a text without line breaks"):
        call(*words)
    with pytest.raises(UserError, match=r"^submit\.directory: expected a text without"):
        call(*words[:-1], "exp_name=a\nb/run")
    assert list(tmp_path.iterdir()) == []

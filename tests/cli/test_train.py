"""Training several seeds: their directories, their table, and what one that fails or a signal does to the others."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.commands import mistake
from tests.distributed.launcher import finish, free_port, run_forked, start, start_forked
from tests.run.helpers import CONFIG, SHORT, result
from tests.survival.common import wait_until

QUICK = [*SHORT[1:], "env.stop_value=None"]


def train(*words: str, config: Path = CONFIG, status: int = 0) -> subprocess.CompletedProcess[str]:
    return run_forked(["-m", "ding_lite", "train", "-c", str(config), *words], 300, status=status)


def test_each_seed_has_a_directory_and_a_line_of_the_table(tmp_path: Path) -> None:
    (tmp_path / "cartpole_dqn_seed3").mkdir()  # of an earlier run, which stays as it is
    done = train("-s", "2", "3", "--jobs", "2", *QUICK, "max_env_step=80")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:2] == ["cartpole_dqn_seed2", "cartpole_dqn_seed3"]
    assert len(names) == 3  # the third is that of seed 3, with the time behind its name
    assert names[2].startswith("cartpole_dqn_seed3_")
    assert not list((tmp_path / names[1]).iterdir())
    told = [result(tmp_path / name) for name in (names[0], names[2])]
    assert [(run["seed"], run["envstep"]) for run in told] == [(2, 80), (3, 80)]
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [["2", "max_env_step", "80"], ["3", "max_env_step", "80"]]
    mean = sum(run["eval_return_best"] for run in told) / 2
    assert lines[3].startswith(f"best return {mean:.2f} +- ")
    assert lines[4] == f"directories {names[0]}, {names[2]}"


def test_limits_that_a_file_defines_hold_unless_others_are_given(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CONFIG.read_text() + "\nlimits = dict(max_env_step=80)\nprint('executed')\n")
    for name, words, steps in (("own", [], 80), ("given", ["max_env_step=96"], 96)):
        done = train("-s", "0", *QUICK, *words, f"exp_name={name}", config=tmp_path / "mine.py")
        assert done.stdout.count("executed\n") == 1
        told = result(tmp_path / name)
        assert (told["stop_reason"], told["envstep"]) == ("max_env_step", steps)
        assert f"ended (max_env_step) at env step {steps}, " in done.stdout  # a pipe, as in `| tee log.txt`
    done = run_forked(["-m", "ding_lite", "config", str(tmp_path / "mine.py")], status=None)
    assert done.stdout.count("executed\n") == 1
    assert "limits = {'max_env_step': 80}\n" in done.stdout


@pytest.mark.parametrize("limits", ["80", "dict(max_env_step='80')", "dict(max_env_steps=80)"])
def test_limits_that_mean_nothing_are_a_mistake(
    tmp_path: Path, limits: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(CONFIG.read_text() + f"\nlimits = {limits}\n")
    assert "limit" in mistake(capsys, "train", "-c", "mine.py", "-s", "0", *QUICK).lower()
    assert list(tmp_path.iterdir()) == [tmp_path / "mine.py"]


def test_a_seed_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    text = CONFIG.read_text() + "\nimport os, sys\nif '-s' in sys.argv and sys.argv[sys.argv.index('-s') + 1] == '1':\n"
    (tmp_path / "mine.py").write_text(text + "    raise RuntimeError('this seed is unlucky')\n")
    done = train("-s", "0", "1", "2", *QUICK, "max_env_step=80", "exp_name=run", config=tmp_path / "mine.py", status=2)
    assert "seed 1 failed: " in done.stderr
    assert "this seed is unlucky" in done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()[1:4]] == ["max_env_step", "failed", "max_env_step"]


def test_a_run_whose_name_is_a_pattern_of_file_names_is_found_again(tmp_path: Path) -> None:
    for steps in (80, 160):
        train("-s", "0", "--resume", *QUICK, "exp_name=a[1]", f"max_env_step={steps}")
    assert {path.name: result(path)["envstep"] for path in tmp_path.iterdir()} == {"a[1]": 160}


def test_a_signal_lets_each_run_save_and_starts_no_other_and_all_go_on_together(tmp_path: Path) -> None:
    words = ["-s", "0", "1", "2", "--jobs", "2", *QUICK, "exp_name=run"]
    process = start_forked(["-m", "ding_lite", "train", "-c", str(CONFIG), *words])
    wait_until(lambda: len(list(tmp_path.glob("run_seed*/metrics.jsonl"))) == 2, process, 240)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    done = finish(process, timeout=240)
    assert done.returncode == 128 + signal.SIGINT
    assert sorted(path.name for path in tmp_path.glob("run*")) == ["run_seed0", "run_seed1"]
    for seed in (0, 1):
        assert json.loads((tmp_path / f"run_seed{seed}/result.json").read_text())["stop_reason"] == "interrupted"
        assert f"continue with ding_lite resume run_seed{seed}" in done.stderr
    assert "not started" in done.stdout
    steps = max(result(tmp_path / f"run_seed{seed}")["envstep"] for seed in (0, 1)) + 80
    for _ in range(2):  # the second time, there is nothing left to do
        done = train(*words, "--resume", f"max_env_step={steps}")
        assert [line.split()[1] for line in done.stdout.splitlines()[1:4]] == ["max_env_step"] * 3
        assert {path.name: result(path)["envstep"] for path in tmp_path.glob("run*")} == {
            f"run_seed{seed}": steps for seed in range(3)
        }
    assert done.stderr.count("has reached max_env_step=") == 3
    names = ["run_seed0", "run_seed1"]
    done = run_forked(["-m", "ding_lite", "resume", *names, "--jobs", "2", f"max_env_step={steps + 80}"], 300)
    ends = [result(tmp_path / f"run_seed{seed}")["envstep"] for seed in range(3)]
    assert ends == [steps + 80, steps + 80, steps]
    done = run_forked(["-m", "ding_lite", "resume", *names, "run_seed3"], 120, status=None)
    similar = "there is no such directory. Did you mean 'run_seed0'?"
    assert (done.returncode, done.stderr) == (2, f"Cannot resume 'run_seed3': {similar}\n")


def test_a_command_runs_under_torchs_launcher_that_puts_an_option_before_it(tmp_path: Path) -> None:
    launcher = ["-m", "torch.distributed.launch", "--nproc_per_node=2", f"--master_port={free_port()}"]
    words = ["-m", "ding_lite", "train", "-c", str(CONFIG), "--divide", *QUICK, "exp_name=run", "max_env_step=80"]
    run_forked([*launcher, *words], 240)
    told = result(tmp_path / "run")
    assert (told["envstep"], told["world_size"]) == (80, 2)


@pytest.mark.parametrize(
    "closed", ["<&- >&- 2>&-", *(pytest.param(c, marks=pytest.mark.slow) for c in ("2>&- --nproc 2", "2> >(true)"))]
)
def test_a_closed_stream_does_not_end_a_run(tmp_path: Path, closed: str) -> None:
    words = [sys.executable, "-m", "ding_lite", "train", "-c", str(CONFIG), *QUICK, "max_env_step=80", "exp_name=run"]
    done = finish(start(["bash", "-c", f"{shlex.join(words)} {closed}"], cwd=tmp_path), 120)
    assert done.returncode == 0, (tmp_path / "run" / "log" / "log.txt").read_text()
    assert result(tmp_path / "run")["stop_reason"] == "max_env_step"


@pytest.mark.slow
@pytest.mark.parametrize("streams", ["> log.txt", pytest.param("2> log.txt | cat > other.txt", marks=pytest.mark.slow)])
def test_a_file_that_the_output_goes_to_has_each_message_once(tmp_path: Path, streams: str) -> None:
    words = [sys.executable, "-m", "ding_lite", "train", "-c", str(CONFIG), *QUICK, "max_env_step=80", "exp_name=run"]
    done = finish(start(["bash", "-c", f"{shlex.join(words)} {streams}"], cwd=tmp_path), 120)
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "log.txt").read_text()
    assert said.count("ended (max_env_step) at env step 80") == 1
    assert ("ended (max_env_step)" in done.stderr) == (streams == "> log.txt")  # what is watched stays where it was

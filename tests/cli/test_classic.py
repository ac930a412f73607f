"""DI-engine's options and `resume`: whole runs, and one clear line for every mistake, before anything starts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ding_lite.cli.main import main
from ding_lite.config import compile_config, save_config
from ding_lite.utils import save_checkpoint
from tests.cli.commands import mistake
from tests.distributed.launcher import ROOT, run_forked
from tests.offline.data_sets import offline_pair, record_cartpole
from tests.run.helpers import CONFIG, SHORT, result

ATARI = ROOT / "dizoo" / "atari" / "pong_dqn_ddp_config.py"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


def train(*words: str, config: Path | str = CONFIG) -> None:
    main(["-m", "serial", "-c", str(config), *SHORT, *words])


@pytest.mark.parametrize("words", [["-s", "7", "exp_name=foo"], ["--help"]])
def test_a_config_file_run_as_a_script_does_not_train_in_spite_of_its_arguments(
    words: list[str], tmp_path: Path
) -> None:
    done = run_forked([str(CONFIG), *words], 200, status=None)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.endswith(f"cartpole_dqn_config.py {' '.join(words)}\n")
    assert not list(tmp_path.iterdir())
    reads = "import argparse\nargs = argparse.ArgumentParser()\nargs.add_argument('-s')\nargs.parse_args()\n"
    text = CONFIG.read_text().replace("seed=0)", "seed=0, max_env_step=8)")
    Path("mine.py").write_text(text.replace("from easydict", f"{reads}from easydict", 1))
    done = run_forked(["mine.py", "-s", "7"], 200, status=None)
    assert (done.returncode, [path.name for path in tmp_path.glob("cartpole*")]) == (0, ["cartpole_dqn_seed0"])


def test_options_of_di_engine_set_keys_and_every_seed_is_trained(tmp_path: Path) -> None:
    words = ["-m", "serial", "-c", str(CONFIG), "-s", "4", "-s", "5", *SHORT[1:]]
    done = command(*words, "--env-step", "1.6e2", "--train-iter", "1e3", "--exp-name", "mine")
    told = [result(tmp_path / f"mine_seed{seed}") for seed in (4, 5)]
    assert [(run["seed"], run["envstep"], run["stop_reason"]) for run in told] == [
        (4, 160, "max_env_step"),
        (5, 160, "max_env_step"),
    ]
    told_twice = [
        command("-m", "eval", option, "mine_seed4", "--episodes", "1").stdout for option in ("--ckpt", "--load-path")
    ]
    assert told_twice[0].startswith("return ")
    assert told_twice[1] == told_twice[0]
    words = ["-m", "eval", "--load-path", "mine_seed4", "--replay-path", "mine_seed4/result.json/videos"]
    done = command(*words, status=2)
    assert "mine_seed4/result.json/videos" in done.stderr


OWN_ENV = """
import gymnasium
from ding_lite.utils import ENV_REGISTRY

@ENV_REGISTRY.register("beside")
class Beside(gymnasium.Wrapper):
    def __init__(self, cfg_env):
        super().__init__(gymnasium.make("CartPole-v1"))
"""
OWN_CONFIG = """
from beside_sizes import BATCH_SIZE

main_config = dict(
    env=dict(collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1),
    policy=dict(collect=dict(n_sample=8), learn=dict(batch_size=BATCH_SIZE)),
)
create_config = dict(env=dict(type="beside", import_names=["beside_env"]), policy=dict(type="dqn"))
"""


def test_modules_beside_the_config_are_found_from_anywhere(tmp_path: Path) -> None:
    for folder in ("mine", "elsewhere", "third"):
        (tmp_path / folder).mkdir()
    for name, text in {"beside_env": OWN_ENV, "beside_sizes": "BATCH_SIZE = 8\n", "my_config": OWN_CONFIG}.items():
        (tmp_path / "mine" / f"{name}.py").write_text(text)
    run = tmp_path / "elsewhere" / "run"
    commands = [
        ("elsewhere", ["-m", "ding_lite", "-c", "../mine/my_config.py", *SHORT, "max_env_step=80"]),
        ("third", ["-m", "ding_lite", "resume", str(run), "max_env_step=160"]),
        ("third", [str(run / "total_config.py")]),
    ]
    for folder, words in commands:
        run_forked(words, 300, cwd=tmp_path / folder)
    assert result(run)["envstep"] == 160
    assert result(tmp_path / "third" / "run")["envstep"] == 80


def test_a_mistake_in_a_process_of_its_own_is_one_line_and_status_2(tmp_path: Path) -> None:
    typo = ["-m", "ding_lite", "-c", str(CONFIG), "--nproc", "2", "policy.learn.bacth_size=3"]
    for command in (["-m", "ding_lite", "-c", "missing.py"], [str(write(tmp_path, ATARI, "n_step=3"))], typo):
        done = run_forked(command, 120, status=2)
        assert len(done.stderr.splitlines()) == 1, done.stderr


def write(folder: Path, config: Path, item: str) -> Path:
    """Return a copy of a config file with `item` written into its policy."""
    path = folder / "mine.py"
    path.write_text(config.read_text().replace("policy=dict(", f"policy=dict({item},", 1))
    return path


@pytest.mark.parametrize("content", [None, {"learner": {}}, {"policy": {}}, {"policy": {"model": {"other": 1}}}])
@pytest.mark.parametrize("resume", [True, False])
def test_corrupt_and_foreign_checkpoints(
    capsys: pytest.CaptureFixture[str], nothing_starts: None, tmp_path: Path, content: Any, resume: bool
) -> None:
    path = tmp_path / "some.pth.tar"
    save_checkpoint(str(path), content or {"policy": {}})
    if content is None:
        path.write_bytes(path.read_bytes()[:-200])
    words = [f"policy.learn.learner.hook.load_ckpt_before_run={path}", f"policy.learn.resume_training={resume}"]
    line = mistake(capsys, "-c", str(CONFIG), *words)
    assert str(path) in line
    assert ("does not fit" in line) == (content is not None)


@pytest.mark.parametrize("launched", [False, True])
@pytest.mark.parametrize(
    ("files", "words", "message"),
    [
        ({}, [], "there is no such directory"),
        ({"other.txt": ""}, [], "it is not an experiment directory, total_config.py is missing"),
        ({"result.json": '{"stop_reason": "max_env_step", "envstep": 80}'}, [], "such as max_env_step=160."),
        ({"result.json": '{"stop_reason": "max_train_iter", "train_iter": 9}'}, [], "such as max_train_iter=18."),
        ({"result.json": '{"stop_reason": "stop_value"}'}, [], "such as env.stop_value=None."),
        ({"result.json": "{}"}, ["max_env_steps=100"], "Did you mean 'max_env_step'?"),
    ],
)
def test_what_cannot_be_resumed_is_said_before_a_process_starts(
    capsys: pytest.CaptureFixture[str],
    nothing_starts: None,
    files: dict[str, str],
    words: list[str],
    message: str,
    launched: bool,
) -> None:
    if files:
        Path("other").mkdir()
        if "other.txt" not in files:
            save_config(compile_config(CONFIG), "other/total_config.py")
    for name, text in files.items():
        (Path("other") / name).write_text(text)
    line = mistake(capsys, "resume", "other", *words, *(["--nproc", "2"] if launched else []))
    assert message in line


def test_processes_are_not_started_by_processes_of_another_launcher(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}
    for key, value in there.items():
        monkeypatch.setenv(key, value)
    assert "leave them out under another launcher" in mistake(capsys, "-c", str(CONFIG), "--nproc", "2")
    assert "leave the launcher out" in mistake(capsys, "train", "-c", str(CONFIG), "-s", "0", "1")


def command(*words: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
    return run_forked(["-m", "ding_lite", *words], 200, status=status)


@pytest.mark.parametrize("mode", ["bc", pytest.param("rpc", marks=pytest.mark.slow)])
def test_each_mode_runs_on_several_processes_and_is_resumed_in_its_pipeline(tmp_path: Path, mode: str) -> None:
    config = str(CONFIG.with_name("cartpole_pg_rpc_config.py"))
    small = ["exp_name=run", "policy.collect.n_episode=8", "env.stop_value=None"]
    if mode == "bc":
        record_cartpole(tmp_path / "data.npz")
        main, create = offline_pair("bc")
        (tmp_path / "bc.py").write_text(f"main_config = {main}\ncreate_config = {create}\n")
        config, small = "bc.py", []
    for words in (["-m", mode, "-c", config, *small, "max_train_iter=1"], ["resume", "run", "max_train_iter=9"]):
        command(*words, "--nproc", "2")
    told = result(tmp_path / "run")
    assert (told["train_iter"] >= 9, told["stop_reason"]) == (True, "max_train_iter")  # rpc: whole collects
    assert told["world_size"] == 2 or mode == "rpc"


def test_two_processes_divide_the_sizes_and_are_resumed_to_a_greater_limit(tmp_path: Path) -> None:
    sizes = ["--divide", *SHORT, "policy.learn.batch_size=65", "max_env_step=320"]
    done = command("-m", "serial", "-c", str(CONFIG), "--nproc", "2", *sizes)
    assert "65 global" in done.stderr + done.stdout
    policy = compile_config(tmp_path / "run" / "total_config.py").policy
    assert (policy.learn.batch_size, policy.divide, policy.multi_gpu) == (65, True, True)
    told = result(tmp_path / "run")
    assert (told["world_size"], told["envstep"], told["stop_reason"]) == (2, 320, "max_env_step")
    refused = command("resume", "run", "--nproc", "2", status=2)
    assert refused.stderr.splitlines() == [
        "The run in 'run' has finished (max_env_step): to train further, change the limit, such as max_env_step=640."
    ]
    for processes in ("1", "2"):  # a limit that the run is past does not change how it ended
        refused = command("resume", "run", "--nproc", processes, "max_env_step=160", status=2)
        assert refused.stderr.splitlines() == [
            "The run in 'run' has reached max_env_step=160 already: to train further, give more than 320."
        ]
    assert result(tmp_path / "run") == told
    done = command("resume", "run", "--nproc", "2", "max_env_step=160", "max_env_step=480")  # the last one counts
    assert done.returncode == 0, done.stderr
    told = result(tmp_path / "run")
    assert (told["world_size"], told["envstep"], told["stop_reason"]) == (2, 480, "max_env_step")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_policys_type_may_be_given_by_policy_alone(
    capsys: pytest.CaptureFixture[str], nothing_starts: None
) -> None:
    Path("mine.py").write_text("main_config = dict(env=dict(env_id='CartPole-v1'))\ncreate_config = {}\n")
    assert "such as policy=dict(type=...)" in mistake(capsys, "-c", "mine.py")
    assert "Policy 'bc' learns from a data set" in mistake(capsys, "-c", "mine.py", "-m", "serial", "policy=bc")

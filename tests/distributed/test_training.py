"""Whole runs on two real gloo processes."""

from __future__ import annotations

import copy
import os
import signal
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from ding_lite.entry import serial_pipeline
from ding_lite.policy import DQNPolicy
from ding_lite.utils import POLICY_REGISTRY, get_rank, load_checkpoint
from dizoo.classic_control.cartpole.config.cartpole_dqn_config import create_config, main_config
from tests.distributed.launcher import ROOT, finish, free_port, run_ranks, start
from tests.distributed.on_ranks import call_on_ranks
from tests.policy.helpers import parameter_hash
from tests.run.helpers import last_checkpoint, metrics, result
from tests.survival.common import wait_until

CARTPOLE = ROOT / "dizoo" / "classic_control" / "cartpole" / "config" / "cartpole_dqn_config.py"
PONG = ROOT / "dizoo" / "atari" / "pong_dqn_ddp_config.py"
STEPS = 480  # env steps of both ranks: 30 collects of 2 x 8
QUICK = ["exp_name=run", "policy.eval.evaluator.eval_freq=50", "policy.learn.learner.hook.log_show_after_iter=10"]


class WatchedDQN(DQNPolicy):
    """Remembers what this rank collected."""

    collected: ClassVar[list[dict[str, Tensor]]] = []

    def _get_train_sample(self, block: dict[str, Any]) -> dict[str, Any]:
        self.collected.append({key: block[key].clone() for key in ("obs", "action", "reward")})
        return super()._get_train_sample(block)


def watched(*overrides: str, max_env_step: int = STEPS) -> DQNPolicy:
    POLICY_REGISTRY["watched_dqn"] = WatchedDQN
    create = copy.deepcopy(create_config)
    create["policy"]["type"] = "watched_dqn"
    keys = [*QUICK, "policy.multi_gpu=True", *overrides]
    return serial_pipeline((main_config, create), seed=0, max_env_step=max_env_step, overrides=keys)  # type: ignore


def train_rank(overrides: tuple[str, ...], steps: int) -> dict[str, Any]:
    """Train; return what this rank ended with, saw and wrote. Overrides like `1:KEY=VALUE` are for rank 1."""
    written: list[str] = []

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.append(os.path.abspath(args[0]))
        elif event in ("os.mkdir", "os.rename", "os.remove"):
            written.append(os.path.abspath(os.fspath(args[0])))

    sys.addaudithook(hook)
    own = [word.split(":", 1)[-1] for word in overrides if word.partition(":")[0] in (word, str(get_rank()))]
    policy = watched(*own, max_env_step=steps)
    blocks, state = WatchedDQN.collected, policy.state_dict()
    here = os.getcwd() + os.sep
    return {
        "online": parameter_hash(policy.model),
        "target": parameter_hash(state["target_model"]),
        "moments": parameter_hash({k: v for k, v in state["optimizer"]["state"][0].items() if k != "step"}),
        "iterations": state["iterations"],
        "steps": sum(block["reward"].numel() for block in blocks),
        "experience": [parameter_hash(block) for block in blocks],
        "first_obs": blocks[0]["obs"][0].tolist(),
        "actions": [block["action"].flatten().tolist() for block in blocks],
        "written": [path.removeprefix(here) for path in written if path.startswith(here)],
    }


def train(folder: Path, *overrides: str, steps: int = STEPS) -> list[dict[str, Any]]:
    return call_on_ranks(train_rank, overrides, steps, cwd=folder)


Ranks = tuple[Path, list[dict[str, Any]]]

# -- one run, looked at from all sides --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """Return the directory of a run, and what both ranks tell of it."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "run").mkdir()  # an older run's: the new name, which has the time in it, must be agreed on
    (folder / "run" / "result.json").write_text("older")
    told = train(folder)
    (path,) = folder.glob("run_*")
    return path, told


def test_networks_and_optimizer_are_equal_to_the_bit_on_all_ranks(ranks: Ranks) -> None:
    path, (first, second) = ranks
    for key in ("online", "target", "moments", "iterations"):
        assert first[key] == second[key]
    assert parameter_hash(last_checkpoint(path)["policy"]["model"]) == first["online"]
    own = [load_checkpoint(f"{path}/ckpt/iteration_110.rank_{rank}.pth.tar")["random"] for rank in (0, 1)]
    assert not torch.equal(own[0]["torch"], own[1]["torch"])


def test_each_rank_collects_experience_of_its_own(ranks: Ranks) -> None:
    _, (first, second) = ranks
    assert not set(first["experience"]) & set(second["experience"])
    starts = {tuple(obs) for report in (first, second) for obs in report["first_obs"]}
    assert len(starts) == 16  # environments are seeded differently
    assert first["actions"][0] != second["actions"][0]  # and exploration


def test_counts_are_sums_over_ranks_and_metrics_are_written_once(ranks: Ranks) -> None:
    path, (first, second) = ranks
    told = result(path)
    assert first["steps"] == second["steps"] == STEPS // 2
    assert (told["envstep"], told["world_size"]) == (STEPS, 2)
    # 64 samples a rank and the newest row: learning starts with the ninth of 30 collects
    assert told["train_iter"] == first["iterations"] == 5 * (STEPS // 16 - 8)
    assert told["episode_count"] > 8
    trained = [record["train_iter"] for record in metrics(path) if "train/total_loss" in record]
    assert trained == list(range(10, 111, 10))
    assert all(record["envstep"] % 16 == 0 for record in metrics(path))


def test_only_rank_0_writes_into_a_directory_that_all_agree_on(ranks: Ranks) -> None:
    path, (first, second) = ranks
    others = [name for name in second["written"] if ".rank_1.pth.tar" not in name]
    assert {Path(name).name for name in others} <= {"ckpt"}  # its part of a checkpoint, before that has a name
    assert {Path(name).parts[0] for name in first["written"]} <= {"run", path.name}
    assert [file.read_text() for file in path.with_name("run").iterdir()] == ["older"]
    assert len(list((path / "log" / "serial").iterdir())) == 1
    lines = (path / "log" / "log.txt").read_text()
    for words in (
        "2 (shared memory, gloo)",
        "64 a rank, 128 global",
        "8 env steps a rank, 16 global",
        "8 a rank (base), 16 global",
    ):
        assert lines.count(words) == 1


def test_a_run_is_resumed_on_two_ranks_and_can_be_repeated(ranks: Ranks, tmp_path: Path) -> None:
    path = f"{ranks[0]}/ckpt/ckpt_last.pth.tar"
    resume = ["policy.learn.resume_training=True", f"policy.learn.learner.hook.load_ckpt_before_run={path}"]
    runs = []
    for name, more in (("first", []), ("second", ["1:policy.learn.resume_training=False"])):  # rank 0 decides alone
        (tmp_path / name).mkdir()
        runs.append(train(tmp_path / name, *resume, *more, steps=STEPS + 240))
        told = result(tmp_path / name / "run")
        assert (told["envstep"], told["train_iter"]) == (STEPS + 240, 110 + 5 * 15)  # 15 more collects
    first, second = ([report["online"] for report in run] for run in runs)
    assert len({*first, *second}) == 1
    assert runs[0][0]["actions"] == runs[1][0]["actions"] != runs[0][1]["actions"]  # each rank's own random state


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_mistake_in_the_config_is_one_line(tmp_path: Path) -> None:
    done = run_ranks(["-m", "ding_lite", "-c", str(CARTPOLE), *QUICK], timeout=120, cwd=tmp_path, status=None)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("[rank")]
    assert line.startswith("[rank 0] expected policy.multi_gpu=True with 2 processes, got policy.multi_gpu=False")
    assert os.listdir(tmp_path) == []


def wait_for(path: Path, words: str) -> None:
    wait_until(lambda: path.exists() and words in path.read_text())


# -- the main job -----------------------------------------------------------------------------------------------------


def test_the_main_job_as_a_user_types_it_starts_and_can_be_stopped(tmp_path: Path) -> None:
    words = ["--nproc_per_node=2", f"--master_port={free_port()}", str(PONG)]
    process = start([sys.executable, "-m", "torch.distributed.launch", *words], cwd=tmp_path)
    try:
        wait_for(tmp_path / "pong_dqn_ddp_seed0" / "log" / "log.txt", "16 a rank, 32 global")
        os.killpg(process.pid, signal.SIGINT)
    finally:
        done = finish(process, timeout=120)
    assert done.returncode != 0
    assert "checkpoint pong_dqn_ddp_seed0/ckpt/ckpt_last.pth.tar" in done.stderr
    assert torch.cuda.is_available() or done.stderr.count("training on the CPU") == 1

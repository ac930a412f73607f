"""Whole runs on two real gloo processes, started by torch's own launchers.

The ranks run this file as `python -m tests.distributed.test_training WHAT`, in an empty directory.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from ding_lite.entry import serial_pipeline
from ding_lite.policy import DQNPolicy
from ding_lite.utils import POLICY_REGISTRY, DDPContext, get_rank, load_checkpoint
from dizoo.classic_control.cartpole.config.cartpole_dqn_config import create_config, main_config
from tests.distributed.launcher import ROOT, finish, free_port, launch, run_ranks, say, start, start_forked
from tests.policy.helpers import parameter_hash

ME = ["-m", "tests.distributed.test_training"]
CARTPOLE = ROOT / "dizoo" / "classic_control" / "cartpole" / "config" / "cartpole_dqn_config.py"
PONG = ROOT / "dizoo" / "atari" / "pong_dqn_ddp_config.py"
STEPS = 480  # env steps of both ranks: 30 collects of 2 x 8
QUICK = ["exp_name=run", "policy.eval.evaluator.eval_freq=50", "policy.learn.learner.hook.log_show_after_iter=10"]


class WatchedDQN(DQNPolicy):
    """Remembers what this rank collected, or fails where it is told to."""

    fail: ClassVar[tuple[str, int]] = ("", -1)  # where, and on which rank
    collected: ClassVar[list[dict[str, Tensor]]] = []
    calls = 0

    def _maybe_fail(self, where: str, at_call: int) -> None:
        if self.fail == (where, get_rank()):
            self.calls += 1
            if self.calls == at_call:
                say(f"failing at {time.time()}")
                raise ArithmeticError(f"boom in {where}")

    def _get_train_sample(self, block: dict[str, Any]) -> dict[str, Any]:
        self._maybe_fail("collect", 5)
        self.collected.append({key: block[key].clone() for key in ("obs", "action", "reward")})
        return super()._get_train_sample(block)

    def _loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        self._maybe_fail("learn", 12)
        return super()._loss(batch)

    def _forward_eval(self, obs: Any) -> dict[str, Tensor]:
        self._maybe_fail("evaluate", 30)  # within the first or second evaluation
        return super()._forward_eval(obs)


def watched(*overrides: str, max_env_step: int = STEPS) -> DQNPolicy:
    POLICY_REGISTRY["watched_dqn"] = WatchedDQN
    create = copy.deepcopy(create_config)
    create["policy"]["type"] = "watched_dqn"
    keys = [*QUICK, "policy.multi_gpu=True", *overrides]
    return serial_pipeline((main_config, create), seed=0, max_env_step=max_env_step, overrides=keys)  # type: ignore


# What the ranks run.


def rank_train(*overrides: str) -> None:
    """Train; write what this rank ended with, saw and opened for writing. Overrides like `1:KEY=VALUE` are rank 1's."""
    written: list[str] = []

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.append(os.path.abspath(args[0]))
        elif event in ("os.mkdir", "os.rename", "os.remove"):
            written.append(os.path.abspath(os.fspath(args[0])))

    sys.addaudithook(hook)
    with DDPContext(timeout=30):
        own = [word.split(":", 1)[-1] for word in overrides if word.partition(":")[0] in (word, str(get_rank()))]
        policy = watched(*own, max_env_step=int(os.environ.get("STEPS", STEPS)))
        blocks, rank, state = WatchedDQN.collected, get_rank(), policy.state_dict()
        here = os.getcwd() + os.sep
        report = {
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
    Path(f"rank{rank}.json").write_text(json.dumps(report))


def rank_fail(where: str, rank: str) -> None:
    WatchedDQN.fail = (where, int(rank))
    with DDPContext(timeout=60):
        watched(max_env_step=100_000)


def reports(folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def train(folder: Path, *overrides: str, steps: int = STEPS) -> list[dict[str, Any]]:
    done = run_ranks([*ME, "train", *overrides], timeout=150, cwd=folder, env={"STEPS": str(steps)})
    assert done.returncode == 0, done.stderr
    (folder / "stderr.txt").write_text(done.stderr)
    return reports(folder)


# -- one run, looked at from all sides --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    (folder / "run").mkdir()  # an older run's: the new name, which has the time in it, must be agreed on
    (folder / "run" / "result.json").write_text("older")
    train(folder)
    return folder


def results_of(folder: Path) -> Path:
    (path,) = folder.glob("run_*")
    return path


def test_networks_and_optimizer_are_equal_to_the_bit_on_all_ranks(folder: Path) -> None:
    first, second = reports(folder)
    for key in ("online", "target", "moments", "iterations"):
        assert first[key] == second[key]
    state = load_checkpoint(str(results_of(folder) / "ckpt" / "ckpt_last.pth.tar"))
    assert parameter_hash(state["policy"]["model"]) == first["online"]
    ckpt = results_of(folder) / "ckpt"
    own = [load_checkpoint(str(ckpt / f"iteration_110.rank_{rank}.pth.tar"))["random"] for rank in (0, 1)]
    assert not torch.equal(own[0]["torch"], own[1]["torch"])


def test_each_rank_collects_experience_of_its_own(folder: Path) -> None:
    first, second = reports(folder)
    assert not set(first["experience"]) & set(second["experience"])
    starts = {tuple(obs) for report in (first, second) for obs in report["first_obs"]}
    assert len(starts) == 16  # environments are seeded differently
    assert first["actions"][0] != second["actions"][0]  # and exploration


def test_counts_are_sums_over_ranks(folder: Path) -> None:
    first, second = reports(folder)
    told = json.loads((results_of(folder) / "result.json").read_text())
    assert first["steps"] == second["steps"] == STEPS // 2
    assert (told["envstep"], told["world_size"]) == (STEPS, 2)
    # 64 samples a rank and the newest row: learning starts with the ninth of 30 collects
    assert told["train_iter"] == first["iterations"] == 5 * (STEPS // 16 - 8)
    assert told["episode_count"] > 8


def test_only_rank_0_writes(folder: Path) -> None:
    first, second = reports(folder)
    others = [path for path in second["written"] if ".rank_1.pth.tar" not in path]
    assert {Path(path).name for path in others} <= {"ckpt"}  # its part of a checkpoint, before that has a name
    assert {Path(path).parts[0] for path in first["written"]} <= {"run", results_of(folder).name}
    assert len(list((results_of(folder) / "log" / "serial").iterdir())) == 1
    lines = (results_of(folder) / "log" / "log.txt").read_text()
    for words in (
        "2 (shared memory, gloo)",
        "64 a rank, 128 global",
        "8 env steps a rank, 16 global",
        "8 a rank (base), 16 global",
    ):
        assert lines.count(words) == 1
    assert (folder / "stderr.txt").read_text().count("64 a rank, 128 global") == 1


def test_all_ranks_agree_on_a_new_directory(folder: Path) -> None:
    assert (folder / "run" / "result.json").read_text() == "older"
    assert os.listdir(folder / "run") == ["result.json"]
    assert json.loads((results_of(folder) / "result.json").read_text())["stop_reason"] == "max_env_step"


def test_metrics_are_global_and_written_once(folder: Path) -> None:
    records = [json.loads(line) for line in (results_of(folder) / "metrics.jsonl").read_text().splitlines()]
    trained = [record["train_iter"] for record in records if "train/total_loss" in record]
    assert trained == list(range(10, 111, 10))
    assert all(record["envstep"] % 16 == 0 for record in records)


def test_a_run_is_resumed_on_two_ranks_and_can_be_repeated(folder: Path, tmp_path: Path) -> None:
    path = results_of(folder) / "ckpt" / "ckpt_last.pth.tar"
    resume = ["policy.learn.resume_training=True", f"policy.learn.learner.hook.load_ckpt_before_run={path}"]
    runs = []
    for name, more in (("first", []), ("second", ["1:policy.learn.resume_training=False"])):  # rank 0 decides alone
        (tmp_path / name).mkdir()
        runs.append(train(tmp_path / name, *resume, *more, steps=STEPS + 240))
        told = json.loads((tmp_path / name / "run" / "result.json").read_text())
        assert (told["envstep"], told["train_iter"]) == (STEPS + 240, 110 + 5 * 15)  # 15 more collects
    first, second = ([report["online"] for report in run] for run in runs)
    assert len({*first, *second}) == 1
    assert runs[0][0]["actions"] == runs[1][0]["actions"] != runs[0][1]["actions"]  # each rank's own random state


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "rank"), [("evaluate", 0), *(pytest.param(w, 1, marks=pytest.mark.slow) for w in ("collect", "learn"))]
)
def test_an_exception_on_one_rank_ends_the_job_with_its_traceback(tmp_path: Path, where: str, rank: int) -> None:
    done = launch([*ME, "fail", where, str(rank)], timeout=120, cwd=tmp_path)
    ended = time.time()
    assert done.returncode not in (0, None)
    assert ended - float(done.stdout.split()[-1]) < 30
    lines = [line for line in done.stderr.splitlines() if line.startswith(f"[rank {rank}]")]
    assert f"[rank {rank}] Traceback (most recent call last):" in lines
    assert f"[rank {rank}] ArithmeticError: boom in {where}" in lines
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_mistake_in_the_config_is_one_line(tmp_path: Path) -> None:
    done = run_ranks(["-m", "ding_lite", "-c", str(CARTPOLE), *QUICK], timeout=120, cwd=tmp_path)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("[rank")]
    assert line.startswith("[rank 0] expected policy.multi_gpu=True with 2 processes, got policy.multi_gpu=False")
    assert os.listdir(tmp_path) == []


def test_evaluating_a_checkpoint_under_a_launcher_is_refused(tmp_path: Path) -> None:
    Path(tmp_path, "some.pth.tar").touch()
    words = ["-m", "ding_lite", "-m", "eval", "-c", str(CARTPOLE), "--ckpt", "some.pth.tar"]
    done = run_ranks(words, timeout=120, cwd=tmp_path)
    assert done.returncode != 0
    assert "is evaluated by one process" in done.stderr
    assert "Traceback" not in "".join(line for line in done.stderr.splitlines() if line.startswith("[rank"))


@pytest.mark.parametrize("launcher", ["run", pytest.param("launch", marks=pytest.mark.slow)])
def test_ctrl_c_ends_the_job_cleanly_with_a_checkpoint(tmp_path: Path, launcher: Literal["run", "launch"]) -> None:
    options = ["--nproc_per_node=2", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    command = ["-m", f"torch.distributed.{launcher}", *options]
    words = [
        "-m",
        "ding_lite",
        "-m",
        "serial",
        "-c",
        str(CARTPOLE),
        *QUICK,
        "policy.multi_gpu=True",
        "env.stop_value=None",
    ]
    process = start_forked([*command, *words], cwd=tmp_path)
    try:
        wait_for(tmp_path / "run" / "metrics.jsonl", "train/total_loss")
        began = time.time()
        os.killpg(process.pid, signal.SIGINT)
    finally:
        done = finish(process, timeout=120)
    assert time.time() - began < 30
    assert done.returncode != 0
    assert "SIGINT: stopping after this iteration" in done.stderr
    assert "ended (interrupted)" in done.stderr
    assert "checkpoint run/ckpt/ckpt_last.pth.tar" in done.stderr
    assert "[rank" not in done.stderr
    told = json.loads((tmp_path / "run" / "result.json").read_text())
    assert told["stop_reason"] == "interrupted"
    state = load_checkpoint(str(tmp_path / "run" / "ckpt" / "ckpt_last.pth.tar"))
    assert state["collector"]["envstep"] == told["envstep"] > 0


def wait_for(path: Path, words: str, timeout: float = 90) -> None:
    deadline = time.time() + timeout
    while not (path.exists() and words in path.read_text()):
        assert time.time() < deadline, f"{path} never told of {words}"
        time.sleep(0.05)


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


def main(argv: list[str]) -> None:
    torch.set_num_threads(1)
    what, *words = [word for word in argv if not word.startswith("--local-rank")]
    parts: dict[str, Callable[..., None]] = {"train": rank_train, "fail": rank_fail}
    parts[what](*words)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A job goes on with as many processes as there are; `survival/machines.py` has machines that come and go."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributed.launcher import Forked, finish, free_port, start_forked
from tests.distributed.test_launchers import srun
from tests.survival.common import CONFIGS, checkpoints, read_json, wait_until
from tests.survival.machines import ELASTIC_WORDS, ENVIRONMENT, ElasticJob, Machine, check_record


class Launcher(Machine):
    """What may be a machine of its own: the processes of one of several launchers."""

    def __init__(self) -> None:
        self.name, self.addr = socket.gethostname(), "127.0.0.1"
        self.process: Forked | None = None

    def boot(self, words: list[str], log: Path) -> None:
        self.process = start_forked(words[1:], ENVIRONMENT)

    @property
    def status(self) -> int | None:
        assert self.process
        return self.process.poll()

    def terminate(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        assert self.process
        ranks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in (self.process.pid, *map(int, ranks)):
            os.kill(pid, signal.SIGKILL)


class LocalJob(ElasticJob):
    def _log(self, machine: Machine) -> Path:
        return self.run / "log" / "log.txt"


@pytest.fixture
def launchers() -> Iterator[list[Launcher]]:
    launchers = [Launcher(), Launcher()]
    yield launchers
    for launcher in launchers:
        if launcher.process and launcher.status is None:
            launcher.kill()
        if launcher.process:
            print(*launcher.process.communicate())


def test_a_job_takes_a_launcher_in_goes_on_without_it_and_ends_at_a_signal(
    tmp_path: Path, launchers: list[Launcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ElasticJob, "port", free_port())
    first, second = launchers
    job = LocalJob(launchers, tmp_path / "job")
    job.change(lambda: job.boot(second), rf"{first.name} joined \(rank .\)", first, second)
    job.change(second.kill, rf"{first.name} left \(rank .\)", first)
    job.end()


@pytest.mark.slow
def test_a_requeued_job_of_slurm_goes_on_with_fewer_nodes(tmp_path: Path) -> None:
    words = ["-m", "ding_lite", "train", "-c", str(CONFIGS["cartpole dqn"]), "-s", "3", "--divide", "--resume"]
    words += ["exp_name=run", *ELASTIC_WORDS]
    envs = [srun(task, "127.0.0.[1-2]", 0, "1(x2)", free_port()) for task in range(2)]
    tasks = [start_forked(words, {**env, "MASTER_PORT": envs[0]["MASTER_PORT"]}, tmp_path) for env in envs]
    run = tmp_path / "run"
    wait_until(lambda: len(checkpoints(run)) >= 2, tasks[0])
    for task in tasks:
        task.send_signal(signal.SIGUSR1)  # before the time limit
    assert [finish(task, 60).returncode for task in tasks] == [128 + signal.SIGUSR1] * 2
    reached = read_json(run / "result.json")["envstep"]
    alone = srun(0, "127.0.0.1", 0, "1", free_port()) | {"SLURM_STEP_NUM_TASKS": "1"}
    for steps in (reached + 800, reached):  # the second time, it is over
        end = finish(start_forked([*words, f"max_env_step={steps}"], alone, tmp_path), 120)
        assert end.returncode == 0, end.stderr
    assert "has reached max_env_step=" in end.stderr
    result = read_json(run / "result.json")
    assert (result["world_size"], result["envstep"]) == (1, reached + 800)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    check_record(run)

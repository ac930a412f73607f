"""A job goes on with as many processes as there are; `survival/machines.py` has machines that come and go."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributed.launcher import Forked, free_port, start_forked
from tests.survival.machines import ENVIRONMENT, ElasticJob, Machine


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

"""Signals that a process passes on to the runs it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from ding_lite.launch.run_process import open_cluster, passing_signals_on
from ding_lite.utils.registry import UserError
from tests.survival.common import wait_until


@pytest.mark.parametrize(
    "before", [signal.SIG_IGN, signal.default_int_handler], ids=["in a script's background", "else"]
)
def test_the_first_signal_is_told_and_the_handler_restored(before: signal.Handlers) -> None:
    own = signal.signal(signal.SIGINT, before)
    try:
        with passing_signals_on(list) as received:
            assert received() == 0
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            assert received() == signal.SIGINT
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        signal.signal(signal.SIGINT, own)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_results_of_jobs_are_not_unpickled_from_a_directory_of_another_user(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    tmp_path.chmod(0o1777)  # as /tmp
    (tmp_path / "jobs").mkdir()
    os.chown(tmp_path / "jobs", 65534, 65534)
    with pytest.raises(UserError, match=r"--submit local: '.*/jobs' is a directory of user 65534, which could lead"):
        open_cluster(Namespace(submit="local", nproc=1, cluster_words=[]), tmp_path)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux only")

# Forks a child, which calls `end_with_parent` as soon as the file `go` exists and then creates `ready`.
PARENT = """
import os, signal, sys, time
from pathlib import Path
from ding_lite.utils.ranks.interrupt import end_with_parent

parent = os.getpid()
if child := os.fork():
    print(child, flush=True)
    time.sleep(600)
while not Path("go").exists():
    time.sleep(0.01)
end_with_parent(int(sys.argv[1]), parent)
Path("ready").touch()
time.sleep(600)
"""


def start(folder: Path, number: int) -> tuple[subprocess.Popen[str], int]:
    """Return the parent, and the process id of its child."""
    words = [sys.executable, "-c", PARENT, str(number)]
    parent = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def kill(parent: subprocess.Popen[str]) -> None:
    parent.kill()
    parent.wait()


def ended(parent: subprocess.Popen[str]) -> bool:
    """Return whether the child ended, too: it held the other end of the parent's pipe."""
    assert parent.stdout is not None
    with parent.stdout as pipe:
        return pipe.read() == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_gets_the_signal_when_its_parent_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    parent, child = start(tmp_path, number)
    (tmp_path / "go").touch()
    wait_until((tmp_path / "ready").exists, parent)
    os.kill(child, 0)  # it lives
    kill(parent)
    assert ended(parent)


def test_a_process_whose_parent_was_killed_before_ends_at_once(tmp_path: Path) -> None:
    parent, child = start(tmp_path, signal.SIGTERM)
    kill(parent)
    os.kill(child, 0)  # it waits, as nobody told the kernel to end it
    (tmp_path / "go").touch()
    assert ended(parent)
    assert not (tmp_path / "ready").exists()

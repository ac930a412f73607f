"""A test that leaves something behind fails, also in the background, where the shell has SIGINT ignored."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

from tests.distributed.launcher import finish, start

LEAKS = """
import os, signal, subprocess, sys, threading, time
import pytest
import torch.distributed as dist

def wait():
    time.sleep(300)

def test_nothing() -> None:
    thread = threading.Thread(target=time.sleep, args=(0.1,))
    thread.start()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.1)"])

def test_variable() -> None:
    os.environ["LEFT"] = "1"

def test_thread() -> None:
    threading.Thread(target=wait, name="waiting", daemon=True).start()

def test_process() -> None:
    subprocess.Popen(["sleep", "60"])
    time.sleep(0.5)  # until it has its name

def test_group(tmp_path) -> None:
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store")), rank=0, world_size=1)

def test_handler() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

def test_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    child = subprocess.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 2)"])
    assert child.returncode == -signal.SIGINT
"""


def test_what_a_test_leaves_behind_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_leaks.py").write_text(LEAKS)
    options = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for a background job; children inherit it
    try:
        process = start([sys.executable, "-m", "pytest", *options, "test_leaks.py"], {"LEAK_PATIENCE": "2"}, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    out = finish(process, 60).stdout
    left = dict(re.findall(r"^ERROR test_leaks.py::(\w+) - Failed: left behind: (.*)$", out, re.M))
    print(out)
    group = left.pop("test_group")
    assert left == {
        "test_variable": "another LEFT",
        "test_thread": "thread waiting",
        "test_process": "process sleep 60",
        "test_handler": "another SIGTERM",
    }
    assert group.startswith("a process group")
    assert out.splitlines()[-1].startswith("7 passed, 5 errors in ")

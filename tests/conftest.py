"""What holds for every test: it starts as if it were the only one, workers share them well, nothing is left behind.

`run_directory` is that of a short run.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.run import setup
from tests.algorithms import ALGORITHMS
from tests.run.helpers import run

HERE = Path(__file__).parent
# Tests in these folders start several processes each. They come first, in two lanes: only two run at once.
SEVERAL_PROCESSES = ("distributed", "survival", "integration", "docs")
LANES = 2
PLACES = {
    path: place for folder in SEVERAL_PROCESSES for place, path in enumerate(sorted((HERE / folder).glob("*.py")))
}
VARIANTS = {name for name, row in ALGORITHMS.items() if row.variant_of}
PATIENCE = 60.0  # seconds that an ending thread or process may take at most
FORK_SERVER = b"tests.distributed.fork_server"
# Python keeps one of each of the first two on purpose, and tests/distributed/launcher.py one of the third.
LASTING = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver", FORK_SERVER)


def pytest_configure() -> None:
    """Let SIGINT raise KeyboardInterrupt, here and in the processes that tests start.

    A shell starts its background jobs with SIGINT ignored. Python then installs no handler, and every child process
    inherits that. A signal with a handler, on the other hand, has its default action again in a new program.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name the group of a test: one worker takes all of a group. A file is in one group, which shares its fixtures.

    Tests over all policies are slow for those that have the losses of another one.
    """
    place = PLACES.get(item.path)
    item.add_marker(
        pytest.mark.xdist_group(item.nodeid.partition("::")[0] if place is None else f"lane {place % LANES}")
    )
    case = item.name.partition("[")[2].rstrip("]").split("-")
    if item.path.parent.name != "docs" and not VARIANTS.isdisjoint(case):
        item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Keep Python's garbage collector from looking at all modules and tests again in each collection."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of several processes first; all others keep their order."""
    items.sort(key=lambda item: item.path not in PLACES)


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """Seed all generators before each test, so that a test passes or fails whichever tests ran before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the networks are tiny


@pytest.fixture(autouse=True)
def empty_directory(nothing_left_behind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Start each test in an empty directory of its own; what it patches is put back before one looks what is left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # commands add the current directory
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        run()
    return folder / "run"


@pytest.fixture
def run_directory(trained: Path, empty_directory: Path) -> Path:
    shutil.copytree(trained, empty_directory / "run")
    return Path("run")


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No environment is started and no directory of a run is made."""
    started: list[Any] = []
    monkeypatch.setattr(setup, "create_vector_env", lambda *args, **options: started.append(args))
    yield
    assert not started
    assert not [*tmp_path.rglob("job.json"), *tmp_path.rglob("log")]


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves a process group, a thread, a process, or a changed environment variable or handler."""
    variables, handlers, before = _variables(), _handlers(), _running()
    yield
    left = _running() - before
    if left:
        gc.collect()  # an environment or a loader in a reference cycle
        end = time.monotonic() + PATIENCE
        while left and time.monotonic() < end:
            time.sleep(0.02)
            left = _running() - before
    changed = _changed(variables, _variables()) | _changed(handlers, _handlers())
    found = [*sorted(name for name, _ in left), *(f"another {name}" for name in sorted(changed))]
    if found:
        pytest.fail(f"left behind: {'; '.join(found)}", pytrace=False)


def _variables() -> dict[str, object]:
    # what pytest, torch's compiler, gymnasium, PettingZoo, tensorboardX and Lightning set themselves
    compiler = ("TORCHINDUCTOR_", "_TORCHINDUCTOR_")
    own = (
        *compiler,
        "PYTEST_",
        "PYGAME_HIDE_SUPPORT_PROMPT",
        "SDL_AUDIODRIVER",
        "CRC32C_SW_MODE",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
    )
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def _handlers() -> dict[str, object]:
    return {number.name: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}


def _changed(before: dict[str, object], now: dict[str, object]) -> set[str]:
    return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}


def _running() -> set[tuple[str, object]]:
    """Return the process group, the threads and the child processes that there are, each with what identifies it."""
    dist = sys.modules.get("torch.distributed")
    threads = [thread for thread in threading.enumerate() if thread.name != "tqdm_monitor"]  # torch's compiler's
    found: set[tuple[str, object]] = {(f"thread {thread.name}", thread) for thread in threads}
    if dist is not None and dist.is_available() and dist.is_initialized():
        found.add(("a process group", dist.group.WORLD))
    children = {pid: words for pid, words in _children("self") if not any(name in words for name in LASTING)}
    for pid, words in _children("self"):
        if FORK_SERVER in words:  # what it forks has its words
            children |= dict(_children(pid))
    return found | {(f"process {words.decode()[:80].strip()}", pid) for pid, words in children.items()}


def _children(parent: str) -> Iterator[tuple[str, bytes]]:
    """Yield process id and command line of each child that has not ended."""
    for path in Path(f"/proc/{parent}/task").glob("*/children"):
        pids: list[str] = []
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            pids = path.read_text().split()
        for pid in pids:
            with contextlib.suppress(OSError):  # and so has the process
                if words := Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "):
                    yield pid, words

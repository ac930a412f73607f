"""What holds for every test: Ctrl-C works, workers share the tests well, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Tests in these folders start several processes each. They come first, in two lanes: only two run at once.
SEVERAL_PROCESSES = ("distributed", "survival", "integration", "docs")
LANES = 2
PLACES = {
    path: place for folder in SEVERAL_PROCESSES for place, path in enumerate(sorted((HERE / folder).glob("*.py")))
}
PATIENCE = 10  # seconds that a thread or a process which is about to end may take on a busy machine
LASTING = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")  # Python keeps one of each on purpose


def pytest_configure() -> None:
    """Let SIGINT raise KeyboardInterrupt, here and in the processes that tests start.

    A shell starts its background jobs with SIGINT ignored. Python then installs no handler, and every child process
    inherits that. A signal with a handler, on the other hand, has its default action again in a new program.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name the group of a test: one worker takes all of a group. A file is in one group, which shares its fixtures."""
    place = PLACES.get(item.path)
    item.add_marker(pytest.mark.xdist_group(str(item.path) if place is None else f"lane {place % LANES}"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of several processes first; all others keep their order."""
    items.sort(key=lambda item: item.path not in PLACES)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves a process group, a thread, a process, or a changed environment variable or handler."""
    before = _variables(), _handlers()
    threads, children = set(threading.enumerate()), _children()
    yield
    left = _left(threads, children)
    if left:
        gc.collect()  # an environment or a loader in a reference cycle
        end = time.monotonic() + PATIENCE
        while left and time.monotonic() < end:
            time.sleep(0.02)
            left = _left(threads, children)
    changed = _changed(before[0], _variables()) | _changed(before[1], _handlers())
    left += [f"another {name}" for name in sorted(changed)]
    if left:
        pytest.fail(f"left behind: {'; '.join(left)}", pytrace=False)


def _variables() -> dict[str, object]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _handlers() -> dict[str, object]:
    return {number.name: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}


def _changed(before: dict[str, object], now: dict[str, object]) -> set[str]:
    return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}


def _children() -> dict[int, bytes]:
    """Return the command lines of this process's children, those without one (they have ended) left out."""
    found = {}
    for path in Path("/proc/self/task").glob("*/children"):
        for pid in path.read_text().split():
            try:
                found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:  # gone meanwhile
                continue
    return {pid: words for pid, words in found.items() if words and not any(name in words for name in LASTING)}


def _left(threads: set[threading.Thread], children: dict[int, bytes]) -> list[str]:
    """Return what this process has now and had not before."""
    dist = sys.modules.get("torch.distributed")
    groups = ["a process group"] if dist is not None and dist.is_available() and dist.is_initialized() else []
    new = [f"thread {thread.name}" for thread in set(threading.enumerate()) - threads]
    processes = [f"process {words.decode()[:80]}" for pid, words in _children().items() if pid not in children]
    return [*groups, *new, *processes]

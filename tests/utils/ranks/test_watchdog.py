"""What a rank believes of the others, and what it does to them: watchdogs of one process, without their threads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from ding_lite.utils.ranks.heartbeat import progress
from ding_lite.utils.ranks.launch_environment import Launch
from ding_lite.utils.ranks.meeting import Meeting, describe_process, host_store
from ding_lite.utils.ranks.signing import Signer
from ding_lite.utils.ranks.watchdog import Beat, Watchdog, first_reports
from tests.distributed.launcher import finish, start_forked

SIGNER = Signer(b"secret")


def make_watchdogs(store: dist.TCPStore, machines: list[str]) -> list[Watchdog]:
    """Return the watchdogs of ranks on machines with these names; an empty name is this machine."""
    own = describe_process(0, os.getpid())
    peers = [own._replace(rank=rank, machine=name or own.machine) for rank, name in enumerate(machines)]
    for name, value in first_reports(len(peers)).items():
        store.set(f"meeting/{name}", value)
    launches = [Launch(peer.rank, len(peers), peer.rank, len(peers), "127.0.0.1", store.port) for peer in peers]
    return [Watchdog(5, 15, Meeting(launch, store, "meeting", peers, peers[0], SIGNER)) for launch in launches]


@pytest.fixture
def store() -> dist.TCPStore:
    return host_store("127.0.0.1", 0, 10)


def test_only_what_ranks_have_signed_is_a_report_or_a_cause(store: dist.TCPStore) -> None:
    dog = make_watchdogs(store, ["", ""])[0]
    beat = Beat(7, "learn", 0, False, "")
    for key, value in {"1": beat, "cause": "rank 1 is lost"}.items():
        store.set(f"meeting/{key}", Signer(b"guess").dump(value, key))
        assert dog._look() == ""
        store.set(f"meeting/{key}", f"{value}")
        assert dog._look() == ""
    assert dog._beats[1].number == 1
    dog._publish("rank 1 is\nlost")  # a cause that is not signed does not count as the first one
    dog._publish("rank 0 is lost")
    store.set("meeting/1", SIGNER.dump(beat, "1"))
    assert dog._look() == "rank 1 is lost"
    assert dog._beats[1] == beat
    store.set("meeting/1", SIGNER.dump(beat._replace(number=6), "1"))  # a stranger repeats an old message
    dog._look()
    assert dog._beats[1] == beat


class CountingStore:
    """A store that counts requests, and the values that they contain."""

    def __init__(self, store: Any) -> None:
        self._store, self.requests, self.values = store, 0, 0

    def set(self, key: str, value: str) -> None:
        self.requests, self.values = self.requests + 1, self.values + 1
        self._store.set(key, value)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        self.requests, self.values = self.requests + 1, self.values + len(keys)
        return self._store.multi_get(keys)


# Each rank writes 1 value, and reads the cause and reports. Rank 0: N. On machines of 8, the other 3 observers of rank
# 0's machine read 8 and its other 4 ranks 4 and their own; elsewhere, 4 observers read 8 + 4, 4 others 4 + 4 and their
# own. N = 64: 66 + 3 * 10 + 4 * 7 + 7 * (4 * 14 + 4 * 11) = 824; each of 24 further machines adds 100 and 8 for rank 0.
# One machine of 64 ranks: 4 observers read 64, and 60 others 4 and their own: 4 * 66 + 60 * 7 = 684.
@pytest.mark.parametrize(("size", "near", "values"), [(64, 8, 824), (256, 8, 824 + 24 * 108), (64, 64, 684)])
def test_what_the_store_has_to_do_grows_with_the_ranks_and_not_with_their_square(
    size: int, near: int, values: int, store: dist.TCPStore
) -> None:
    counting: Any = CountingStore(store)
    for dog in make_watchdogs(store, [f"machine {rank // near}" for rank in range(size)]):
        dog._store = counting
        assert dog._look() == ""
    assert (counting.requests, counting.values) == (2 * size, values)


def test_rank_0_tells_all_what_only_it_has_read(store: dist.TCPStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "others_asked", 0)
    monkeypatch.setattr(progress, "asked", memoryview(bytearray(8)).cast("q"))
    dog = make_watchdogs(store, ["a", "b", "c"])[0]
    for rank, beat in enumerate([Beat(2, "learn", 40, True, "", asked=3), Beat(2, "learn", 50, True, "")], 1):
        store.set(f"meeting/{rank}", SIGNER.dump(beat, str(rank)))
    dog._clock = 60
    dog._look()
    dog._look()
    told = Beat(*SIGNER.load(store.get("meeting/0"), "0"))
    assert (told.asked, told.idle, told.stalled) == (3, 40, 60)


KILL = """
import sys
from ding_lite.utils.ranks.meeting import host_store, process_state
from tests.utils.ranks.test_watchdog import make_watchdogs
dog = make_watchdogs(host_store("127.0.0.1", 0, 10), ["", "", ""])[0]
for rank, pid in enumerate(map(int, sys.argv[1:]), 1):
    peer = dog._peers[rank]._replace(pid=pid, born=process_state(pid)[1])
    print(dog._kill(peer, dog._describe_stuck(peer)).rpartition("; ")[2])
"""


def test_a_stuck_process_is_killed_only_if_the_same_launcher_has_started_it(tmp_path: Path) -> None:
    folders = [tmp_path / "attempt_0" / str(rank) for rank in range(3)]
    for folder in folders:
        folder.mkdir(parents=True)
    env = {"TORCHELASTIC_ERROR_FILE": str(folders[0] / "error.json")}
    sibling = start_forked(["-c", "import time; time.sleep(100)"])
    with subprocess.Popen(["sleep", "100"]) as other:  # a process of the same user, but not of the fork server
        done = finish(start_forked(["-c", KILL, str(sibling.pid), str(other.pid)], env), 60)
        assert done.stdout == "killed\nanother launcher started it, so end it yourself\n", done.stderr
        assert other.poll() is None
        other.kill()
    assert sibling.wait(20) == -signal.SIGKILL
    told = {folder.name: json.loads((folder / "error.json").read_text()) for folder in folders if any(folder.iterdir())}
    assert list(told) == ["1"]
    assert told["1"]["message"]["message"].endswith("; killed")

"""How ranks find each other: who listens where, who waits for whom, and how often one process may join."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch.distributed as dist

from ding_lite.utils import DDPContext
from ding_lite.utils.ranks.launch_environment import Launch
from ding_lite.utils.ranks.meeting import NEWEST, host_store, meet
from ding_lite.utils.ranks.signing import Signer, handing_out
from tests.distributed.launcher import finish, free_port, start, start_by_hand, start_forked

TWICE = """
import os
from ding_lite.utils import DDPContext, allreduce_data, get_rank
before = dict(os.environ)
for number in range(3):
    with DDPContext(timeout=60):
        total = allreduce_data(get_rank() + number)
        assert "GLOO_SOCKET_IFNAME" in os.environ
    assert dict(os.environ) == before
    print(total, flush=True)
"""
DIFFERENT = """
import os, numpy
numpy.__version__ = "1." + os.environ["RANK"]
from ding_lite.utils import DDPContext
with DDPContext(timeout=60):
    print("met")
"""
ISOLATED = ["unshare", "--net", "sh", "-c", 'ip link set lo up && ip addr del 127.0.0.1/8 dev lo && exec "$@"', "sh"]


def by_hand(code: str) -> list[subprocess.CompletedProcess[str]]:
    return [finish(rank, 60) for rank in start_by_hand(["-c", code])]


def test_a_process_may_join_several_times() -> None:
    assert [(one.returncode, one.stdout, one.stderr) for one in by_hand(TWICE)] == [(0, "1\n3\n5\n", "")] * 2


@pytest.mark.parametrize(("rank", "missing"), [(0, "rank 1"), (1, "rank 0: Connection refused")])
def test_a_rank_says_for_whom_it_waits_and_can_be_interrupted(rank: int, missing: str) -> None:
    port = free_port()
    env = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    process = start_forked(["-c", TWICE], env)
    line = process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    done = finish(process, 20)
    assert line == (
        f"[rank {rank}] waiting for 1 of 2 ranks at localhost:{port} ({missing}). If this should be a single process, "
        "unset RANK and WORLD_SIZE.\n"
    )
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


def test_ranks_wait_for_the_next_rank_0_if_theirs_is_lost_after_all_have_come() -> None:
    store = host_store("127.0.0.1", 0, 10)
    job = [Launch(rank, 3, rank, 3, "127.0.0.1", store.port) for rank in range(3)]
    with ThreadPoolExecutor() as threads:
        with handing_out(store.port) as secret:
            store.set(NEWEST, Signer(secret).dump("ding_lite/lost", NEWEST))
            late = threads.submit(meet, job[1], 2, {})
            others = threads.submit(meet, job[2], 60, {})
            with pytest.raises(RuntimeError, match=r"^rank 0 did not come$"):
                late.result()
            assert store.check(["ding_lite/lost/is/1", "ding_lite/lost/is/2"])
        found = [threads.submit(meet, launch, 60, {}).result for launch in job[:2]]
        assert len({result().key for result in [*found, others.result]} - {"ding_lite/lost"}) == 1


def test_a_rank_joins_no_meeting_that_rank_0_has_not_named() -> None:
    store = host_store("127.0.0.1", 0, 10)
    store.set(NEWEST, Signer(b"guess").dump("ding_lite/false", NEWEST))
    launch = Launch(1, 2, 1, 2, "127.0.0.1", store.port)
    with pytest.raises(RuntimeError, match=r"^rank 0 did not come: it hands out no secret: Connection refused"):
        meet(launch, 0.5, {})
    with (
        handing_out(store.port),
        pytest.raises(RuntimeError, match=r"^rank 0 did not come: .* is not signed with this"),
    ):
        meet(launch, 0.5, {})
    assert not store.check(["ding_lite/false/is/1"])


def test_tries_to_reach_rank_0_count_towards_the_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as first:
        first.connect(full.getsockname())  # Linux now drops the packets of all others, as some firewalls do
        job = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(full.getsockname()[1])}
        for name, value in job.items():
            monkeypatch.setenv(name, value)
        before, start = dict(os.environ), time.monotonic()
        with pytest.raises(SystemExit, match=r"did not meet .* within 3 s.*rank 0 did not come: timed out"):
            DDPContext(timeout=3).__enter__()
    assert 2 < time.monotonic() - start < 20
    assert dict(os.environ) == before


def test_ranks_with_different_versions_do_not_start() -> None:
    done = by_hand(DIFFERENT)
    assert [(one.returncode, one.stdout) for one in done] == [(2, "")] * 2
    assert done[0].stderr == (
        "Ranks have different versions: numpy is 1.0 on rank 0, 1.1 on rank 1. Install the same versions everywhere.\n"
    )


LAUNCH = "import sys; from ding_lite.launch.launcher import run_ranks; sys.exit(run_ranks(sys.argv[1:], 2, 0))"
JOIN = """
import os
from ding_lite.utils import DDPContext, allreduce_data
with DDPContext():
    os.write(1, f"{allreduce_data(1)}\\n".encode())
"""


@pytest.mark.slow
def test_a_machine_without_ipv4_runs_a_job() -> None:
    if shutil.which("unshare") is None or subprocess.run([*ISOLATED, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not allow network namespaces")
    done = finish(start([*ISOLATED, sys.executable, "-c", LAUNCH, sys.executable, "-c", JOIN]), 60)
    assert (done.returncode, done.stdout) == (0, "2\n2\n"), done.stderr


LISTENERS = """
import os
from pathlib import Path

def listeners(pid):
    sockets = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                yield words[1].split(":")
"""
LISTEN = (
    LISTENERS
    + """
from ding_lite.observers.serial_entry_rpc import RPCLink
from ding_lite.utils import DDPContext, allreduce_data
from tests.distributed.launcher import say

with DDPContext(), RPCLink(None):
    allreduce_data(1)
    parent = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else os.getpid()
    say(" ".join(addr for pid in (os.getpid(), parent) for addr, _ in listeners(pid)))
    allreduce_data(1)
"""
)
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


@pytest.mark.parametrize("how", ["ding_lite", "by hand"])
def test_no_process_of_a_job_of_one_machine_listens_on_another_interface(how: str) -> None:
    if how == "by hand":
        found = "".join(one.stdout for one in by_hand(LISTEN))
    else:
        found = finish(start_forked(["-c", LAUNCH, sys.executable, "-c", LISTEN]), 60).stdout
    assert found.split()
    assert set(found.split()) <= LOOPBACK


STRANGER = (
    LISTENERS
    + """
import base64, os, pickle, sys, time
from datetime import timedelta
import torch.distributed as dist
from ding_lite.utils import DDPContext, all_gather_object, get_rank

class Bomb:
    def __reduce__(self):
        return os.mkdir, (sys.argv[1],)

def attack(pid, ports):
    os.setuid(65534)
    for port in ports:
        store = dist.TCPStore("127.0.0.1", port, timeout=timedelta(seconds=10), wait_for_workers=False)
        for key in store.list_keys():
            if not key.endswith(("/0", "/1", "/cause")):  # else it would end the job, which a stranger can do
                bomb = pickle.dumps(Bomb())
                store.set(key, base64.b64encode(bomb) if "rendezvous" in key else bomb)
    opened = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR)
            opened += 1
        except OSError:
            pass
    print("attacked", len(ports), opened, flush=True)

with DDPContext():
    all_gather_object(1)
    if get_rank() == 0:
        pid, ports = os.getpid(), {int(port, 16) for _, port in listeners(os.getppid())}
        child = os.fork()
        if not child:
            attack(pid, ports)
            os._exit(0)
        os.waitpid(child, 0)
    all_gather_object("x" * 10**6)
    time.sleep(8)  # a launcher with a dynamic rendezvous reads its state every five seconds
    all_gather_object(1)
"""
)


@pytest.mark.skipif(os.geteuid() != 0 or not hasattr(dist.TCPStore, "list_keys"), reason="needs root and torch 2.9")
def test_nothing_that_another_user_writes_into_the_store_is_unpickled(tmp_path: Path) -> None:
    words = ["-c", LAUNCH, sys.executable, "-c", STRANGER, str(tmp_path / "made")]
    done = finish(start_forked(words), 60)
    assert (done.returncode, done.stdout) == (0, "attacked 1 0\n"), done.stderr
    assert not list(tmp_path.iterdir())

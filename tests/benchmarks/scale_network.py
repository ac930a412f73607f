"""Machines out of network namespaces, whose cables have a rate and a delay: for `scale_model`.

`tc` has a qdisc for each, but a kernel may lack netem, which delays, so a relay between TUN devices does both.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import math
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.survival.machines import BOOT

TUN, TUNSETIFF, NO_HEADER = 0x0001, 0x400454CA, 0x1000  # of linux/if_tun.h


class Network:
    """Machines out of network namespaces, each with a TUN device, and a relay that is the cables between them."""

    def __init__(self, size: int, folder: Path) -> None:
        self._folder, self._devices, self._machines = folder, list[int](), list[subprocess.Popen[str]]()
        hold = "import signal; print(flush=True); signal.pause()"
        for number in range(size):
            words = ["unshare", "--net", sys.executable, "-c", hold]
            self._machines.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            assert self._machines[-1].stdout
            self._machines[-1].stdout.readline()
            self._devices.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK))
            device, ipv4 = f"eth{number}", "/proc/sys/net/ipv4"
            fcntl.ioctl(self._devices[-1], 0x400454CA, struct.pack("16sH22x", device.encode(), TUN | NO_HEADER))
            subprocess.run(["ip", "link", "set", device, "netns", str(self._machines[-1].pid)], check=True)
            # Pauses are longer here than they would be; they should not make TCP begin slowly.
            script = f"ip link set lo up; ip addr add 10.77.0.{number + 1}/24 dev {device}; "
            script += f"ip link set {device} mtu 65000 up; echo 0 >{ipv4}/tcp_slow_start_after_idle; "
            script += f"for name in r w; do echo 4096 8388608 16777216 >{ipv4}/tcp_${{name}}mem; done"
            subprocess.run(self._inside(number, ["sh", "-c", script]), check=True)
        self._rate, self._delay, self._ends = math.inf, 0.0, False
        self._relay = threading.Thread(target=self._relay_packets)
        self._relay.start()

    def _inside(self, number: int, words: Sequence[str]) -> list[str]:
        return ["nsenter", f"--target={self._machines[number].pid}", "--net", *words]

    def run(self, plan: Sequence[Any], nproc: int = 1) -> list[list[float]]:
        """Let `nproc` ranks on each machine carry out a plan; return the seconds of each case."""
        (self._folder / "plan").write_text(json.dumps(plan))
        ranks, size = [], len(self._machines)
        for number in range(size):
            meet = [f"--nnodes={size}", f"--node_rank={number}", "--master_addr=10.77.0.1", "--master_port=29500"]
            words = [sys.executable, "-m", "torch.distributed.run", *meet, f"--nproc_per_node={nproc}"]
            words = self._inside(
                number, [*BOOT, *words, "-m", "tests.benchmarks.scale_steps", "--rank", str(self._folder)]
            )
            environment = {**os.environ, "GLOO_SOCKET_IFNAME": f"eth{number}", "OMP_NUM_THREADS": "1"}
            with (self._folder / f"log{number}").open("w") as log:
                ranks.append(subprocess.Popen(words, stdout=log, stderr=log, env=environment))
        while any(rank.poll() is None for rank in ranks):
            time.sleep(0.05)
            if (self._folder / "link").exists():
                (rate, delay), slower = json.loads((self._folder / "link").read_text())
                self._rate, self._delay = rate / slower, delay * slower
        logs = "\n".join((self._folder / f"log{number}").read_text()[-1500:] for number in range(size))
        assert not any(rank.returncode for rank in ranks), logs
        return [json.loads((self._folder / f"found{number}").read_text()) for number in range(len(plan))]

    def close(self) -> None:
        self._ends = True
        self._relay.join()
        for machine in self._machines:
            machine.kill()
            machine.wait()

    def _relay_packets(self) -> None:
        """Deliver each packet when its sender's cable has carried it, and the delay has passed."""
        waiting: list[tuple[float, int, int, bytes]] = []  # when, order, to whom
        free, count = [0.0] * len(self._devices), 0
        while not self._ends:
            pause = min(max(waiting[0][0] - time.perf_counter(), 0.0), 0.1) if waiting else 0.1
            for device in select.select(self._devices, [], [], pause)[0]:
                sender = self._devices.index(device)
                packet = os.read(device, 70000)
                if packet[0] >> 4 == 4 and packet[16:19] == b"\x0a\x4d\x00":  # IPv4, to 10.77.0.x
                    free[sender] = max(time.perf_counter(), free[sender]) + len(packet) / self._rate
                    heapq.heappush(waiting, (free[sender] + self._delay, count, packet[19] - 1, packet))
                    count += 1
            while waiting and waiting[0][0] <= time.perf_counter():
                *_, receiver, packet = heapq.heappop(waiting)
                os.write(self._devices[receiver], packet)

"""What a run left behind, made comparable, and ways to end its processes."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from tensorboardX.proto.event_pb2 import Event, SessionLog

from ding_lite.utils import load_checkpoint
from ding_lite.utils.checkpoint.file import read_checkpoint
from tests.distributed.launcher import ROOT, Forked, free_port

RATES = ("seconds", "time", "collect/env_step_per_second", "data/wait_share")  # what differs between two equal runs
CONFIGS = {
    "cartpole dqn": ROOT / "dizoo/classic_control/cartpole/config/cartpole_dqn_config.py",
    "cartpole ppo": ROOT / "dizoo/classic_control/cartpole/config/cartpole_ppo_config.py",
    "cartpole ppg": ROOT / "dizoo/classic_control/cartpole/config/cartpole_ppg_config.py",
    "pong dqn": ROOT / "dizoo/atari/pong_dqn_ddp_config.py",
    "masked taxi dqn": ROOT / "dizoo/taxi/config/taxi_dqn_config.py",
    "pong ppo": ROOT / "dizoo/atari/config/serial/pong/pong_ppo_config.py",
}


def ding_lite(*words: str, ranks: int = 1) -> list[str]:
    """Return the command line of `ding_lite`, on several ranks through torch's own launcher."""
    if ranks == 1:
        return [sys.executable, "-m", "ding_lite", *words]
    options = [f"--nproc_per_node={ranks}", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    return [sys.executable, "-m", "torch.distributed.run", *options, "-m", "ding_lite", *words]


def abandoned_memory() -> set[str]:
    """Return the files of this user in /dev/shm that no process has mapped or open: other jobs hold theirs."""
    names = set()
    for path in Path("/dev/shm").iterdir():
        with suppress(OSError):  # it is gone
            names |= {path.name} if path.stat().st_uid == os.getuid() else set()
    for process in Path("/proc").glob("[0-9]*") if names else ():
        with suppress(OSError):  # it has ended meanwhile, or is another user's
            names -= {line.partition("/dev/shm/")[2] for line in (process / "maps").read_text().splitlines()}
            for file in (process / "fd").iterdir():
                with suppress(FileNotFoundError):  # it is closed meanwhile
                    names.discard(os.readlink(file).removeprefix("/dev/shm/"))
    return names


def memory_left_since(before: set[str], seconds: float) -> list[str]:
    """Return what stays abandoned in /dev/shm for some seconds, without what was before."""
    left, end = abandoned_memory() - before, time.monotonic() + seconds
    while left and time.monotonic() < end:
        time.sleep(0.1)
        left &= abandoned_memory()
    return sorted(left)


def wait_until(
    condition: Callable[[], Any], process: subprocess.Popen[str] | Forked | None = None, seconds: float = 120
) -> None:
    """Wait, looking every 2 ms, while the process runs, if one is given.

    Raises:
        AssertionError: the process has ended before, or the time is over.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, f"ended early with status {process and process.poll()}"
        assert time.monotonic() < end, f"nothing came within {seconds:g} s"
        time.sleep(0.002)


def kill_rank(launcher: Forked, rank: int) -> None:
    """Kill one rank, a child of its launcher, and nothing else; the fork server has named it."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            name = (path / "comm").read_text()
        except OSError:  # gone meanwhile, or another user's
            continue
        if parent == launcher.pid and name == f"rank {rank}\n":
            os.kill(int(path.name), signal.SIGKILL)
            return
    raise AssertionError(f"there is no rank {rank}")


# What a run left behind.


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the complete lines of metrics.jsonl."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def logged_iter(folder: Path) -> int:
    """Return the learner iteration of the last complete line of metrics.jsonl, 0 without one."""
    try:
        with open(folder / "metrics.jsonl", "rb") as file:
            file.seek(-min(4096, os.fstat(file.fileno()).st_size), os.SEEK_END)
            lines = [line for line in file.read().splitlines(keepends=True)[1:] if line.endswith(b"\n")]
    except FileNotFoundError:
        return 0
    return json.loads(lines[-1])["train_iter"] if lines else 0


def checkpoints(folder: Path) -> list[tuple[str, int]]:
    """Return the name and the learner iteration of each committed checkpoint, oldest first."""
    names = [path.name.removesuffix(".pth.tar") for path in (folder / "ckpt").glob("iteration_*.pth.tar")]
    ordered = sorted((name for name in names if "." not in name), key=lambda name: list(map(int, name.split("_")[1:])))
    return [(name, int(name.split("_")[1])) for name in ordered]


def states(folder: Path) -> dict[str, Any]:
    """Return the newest global state, the best one and all ranks' parts, but for what counts seconds and bytes."""
    newest, _ = checkpoints(folder)[-1]
    parts = read_checkpoint(str(folder / "ckpt" / f"{newest}.pth.tar"))[1]["parts"]
    names = [newest, *(f"{newest}.rank_{rank}" for rank in range(len(parts))), "ckpt_best"]
    found = {name: load_checkpoint(str(folder / "ckpt" / f"{name}.pth.tar")) for name in names}
    for name in (newest, "ckpt_best"):
        record = found[name]["record"]
        del record["seconds"], record["metrics_position"]
        record["collected"].pop("duration", None)
    return found


def read_events(folder: Path) -> tuple[list[Event], int]:
    """Return TensorBoard's events as it shows them, without what a restart made obsolete, and the count of restarts."""
    events, restarts = list[Event](), 0
    for file in sorted((folder / "log" / "serial").iterdir(), key=_by_time):
        data = file.read_bytes()
        while len(data) >= 16:
            size = struct.unpack("<Q", data[:8])[0]
            if len(data) < 16 + size:
                break  # torn by a kill
            event = Event.FromString(data[12 : 12 + size])
            if event.session_log.status == SessionLog.START:
                restarts += 1
                events = [old for old in events if old.step < event.step]
            events += [event] if event.summary.value else []
            data = data[16 + size :]
    return events, restarts


def _by_time(file: Path) -> tuple[int, int]:
    """Return the second in which it was made, and, as some runs here start within one, the process."""
    words = file.name.split(".")
    return int(words[3]), int(words[-1])


def points(folder: Path) -> tuple[list[tuple[int, str, float]], int]:
    """Return `(step, tag, value)` of TensorBoard's events, but for rates, and the count of restarts."""
    events, restarts = read_events(folder)
    shown = [(event.step, value.tag, value.simple_value) for event in events for value in event.summary.value]
    return [point for point in shown if point[1] not in RATES], restarts


def differences(first: Any, second: Any, path: str = "") -> list[str]:
    """Return where two states differ in any bit, type or shape, one line each."""
    if type(first) is not type(second):
        return [f"{path}: {type(first).__name__} and {type(second).__name__}"]
    if isinstance(first, dict):
        if first.keys() != second.keys():
            return [f"{path}: keys {sorted(map(str, first.keys() ^ second.keys()))} only in one"]
        return [line for key in first for line in differences(first[key], second[key], f"{path}/{key}")]
    if isinstance(first, (list, tuple)):
        if len(first) != len(second):
            return [f"{path}: {len(first)} and {len(second)} items"]
        pairs = enumerate(zip(first, second, strict=True))
        return [line for index, pair in pairs for line in differences(*pair, f"{path}/{index}")]
    if isinstance(first, torch.Tensor):
        same = first.dtype == second.dtype and first.shape == second.shape and _bytes(first) == _bytes(second)
        return [] if same else [f"{path}: two tensors, {first.dtype} {list(first.shape)} and {list(second.shape)}"]
    return [] if repr(first) == repr(second) else [f"{path}: {first!r} and {second!r}"]


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.numpy().tobytes()


def compare_runs(whole: Path, other: Path, restarts: int | None = None) -> None:
    """See that a run which went on, `restarts` times if that is known, left what one left that was never stopped.

    Raises:
        AssertionError: naming the first differences.
    """
    found = differences(states(whole), states(other), "ckpt")
    for name, read in (("checkpoints", checkpoints), ("metrics.jsonl", _curves), ("result.json", _result)):
        found += differences(read(whole), read(other), name)
    (shown, none), (shown_other, count) = points(whole), points(other)
    found += differences(shown, shown_other, "TensorBoard")
    found += differences((0, count if restarts is None else restarts), (none, count), "restarts")
    assert not found, f"{len(found)} differences: {'; '.join(found[:8])}"


def _curves(folder: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key not in RATES} for line in read_metrics(folder)]


def _result(folder: Path) -> dict[str, Any]:
    return {**read_json(folder / "result.json"), "seconds": None}

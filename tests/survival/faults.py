"""Does harm to training runs, and looks at how each ends and what it leaves behind.

    python -m tests.survival.faults --number 60 --jobs 2

Each item of FAULTS is a run on CartPole, started by a real entry point. After its first checkpoint something happens to
it, by `tests.survival.faulty` or as a signal to the launcher. It then has to end, or to recover, in time and with the
right status, to say why, to leave a checkpoint that can be loaded, and to leave no process, port, shared memory or
temporary file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from tests.distributed.launcher import MARK, PATIENCE, free_port, kill_marked, start
from tests.survival.common import (
    CONFIGS,
    abandoned_memory,
    checkpoints,
    ding_lite,
    memory_left_since,
    read_json,
    read_metrics,
    states,
    wait_until,
)
from tests.survival.faulty import FAULT, HAPPENED

START = 120.0  # seconds from the start to the fault, on a busy machine
TIMEOUT = 8.0  # seconds without progress that are a hang, where one is awaited
ITERATIONS, LOG = (
    600,
    20,
)  # learner iterations: of a run that goes on to its end, and between two lines of metrics.jsonl
COMMON = [
    "-s", "3", 'env.import_names=["tests.survival.faulty"]', "env.type=faulty", "env.env_id=CartPole-v1",
    "env.stop_value=None", "env.collector_env_num=2", "env.evaluator_env_num=1", "env.n_evaluator_episode=1",
    "policy.eval.evaluator.eval_freq=100", f"policy.learn.learner.hook.log_show_after_iter={LOG}",
    "policy.learn.learner.hook.save_ckpt_after_iter=40", "policy.learn.learner.hook.check_ranks_after_iter=20",
    "policy.multi_gpu=True", "exp_name=run",
]  # fmt: skip
MODES = {
    "dqn": ["-m", "serial", "-c", str(CONFIGS["cartpole dqn"]), "policy.learn.batch_size=16"],
    "ppo": [
        "-m", "serial_onpolicy", "-c", str(CONFIGS["cartpole ppo"]), "policy.collect.n_sample=64",
        "policy.learn.epoch_per_collect=5",
    ],
}  # fmt: skip
KNOWN = re.compile(
    r"run/(total_config\.py|(job|result)\.json|(metrics|origin)\.jsonl|log/log\.txt|log/serial/events\.[\w.-]+|"
    r"nonfinite/iteration_\d+\.rank_\d\.pth\.tar|ckpt/((ckpt_last|ckpt_best)\.pth\.tar|"
    r"(?P<checkpoint>iteration_\d+(_\d+)?)(\.rank_\d)?\.pth\.tar)(?P<temporary>\.tmp)?)|claim\.\d\.\d+|armed\.\d|happened"
)
TORCHS = re.compile(r"tmp/(torchinductor_\w+$|torchelastic_)")  # its cache; a folder that its launcher leaves, always
OURS = re.compile(r"tmp/ding_lite_")  # the same of our launcher; if that is killed, nobody is left to remove it
Signals = tuple[signal.Signals, ...]


class End(NamedTuple):
    """How a run has to end."""

    status: int
    limit: float  # seconds from the last fault until the last process is gone, on a quiet machine
    hangs: bool = False  # its time-out is short


@dataclass(frozen=True)
class Fault:
    """A run, what happens to it, and how it has to end.

    Attributes:
        do: a key of `faulty.STEPS` or `faulty.ACTIONS`.
        ranks: in which it happens; {rank} in `says` is the first of them.
        says: patterns that the last lines of the output must hold.
        to_launcher: signals sent to the process that was started, after `do`; Ctrl-C to its process group.
        times: how often it happens in each of the ranks.
        stage: what the rank is doing then.
        by: "ding_lite" (two ranks, its `--nproc`), "torchrun" (two ranks) or "itself" (one process).
    """

    do: str
    ranks: tuple[int, ...]
    end: End
    says: tuple[str, ...] = ()
    to_launcher: Signals = ()
    times: int = 1
    stage: str = "collect"
    by: str = "ding_lite"
    restarts: int = 0
    mode: str = "dqn"
    manager: str = "base"
    words: tuple[str, ...] = ()

    @property
    def has_bad_disk(self) -> bool:
        return self.do.startswith(("disk", "delete", "read-only"))

    @property
    def reaches_its_limit(self) -> bool:
        return self.end.status == 0 or self.has_bad_disk

    def __str__(self) -> str:
        sent = " ".join(number.name for number in self.to_launcher)
        parts = [self.do if self.do != "nothing" else "", f"{sent} to the launcher" if sent else ""]
        ranks = " and ".join(map(str, self.ranks))
        parts = [f"{' + '.join(filter(None, parts))} in {self.stage} of rank {ranks}"]
        parts += [f"{self.times} times"] * (self.times > 1) + [f"{self.restarts} restarts"] * (self.restarts > 0)
        parts += [self.mode, self.manager, *self.words] + [f"by {self.by}"] * (self.by != "ding_lite")
        return ", ".join(parts)


DIES, FAILS, HANGS, RECOVERS = End(1, 15), End(2, 15), End(1, TIMEOUT + 7, hangs=True), End(0, 90)
TERM, USR1, INT, KILL = signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGKILL
TERMINATED, WARNED, INTERRUPTED = (End(128 + number, 20) for number in (TERM, USR1, INT))
WAS_KILLED = End(-KILL, 15)
CUT_OFF = (1, 2, -INT, -KILL)  # statuses of runs that may end within a save; whoever goes on removes what that left

SAYS_KILLED = (r"Rank {rank} on \S+ \(pid \d+\) was killed by SIGKILL",)
SAYS_RAISED = (r"Rank {rank} on .*InjectedError",)
SAYS_HANGS = (r"Rank {rank} on .*no progress for \d+ s in '\w+'",)
SAYS_STOPPED = (r"Rank {rank} on .*its process is stopped",)
SAYS_KEEPS = (r"Rank {rank} on .*a call keeps the interpreter from running",)
SAYS_GONE = (r"lost another rank: rank {rank} .*is gone: it was killed, or ended without an exception",)
SAYS_LEFT = (r"lost another rank: rank {rank} .*has left with status 0",)
SAYS_SAVED = (r"ended \(interrupted\) .*checkpoint run",)
SAYS_AGAIN = (r"All ranks start again, restart 1 of", r"resumed from iteration_")
SAYS_NAN = (r"Environment 'CartPole-v1': step returned rewards with nan in environment \d",)
SAYS_DRIFT = (r"parameters of rank 1 differ from those of rank 0",)
SAYS_FULL = (r"File too large", r"Training continues")
SAYS_NOT_SAVED = ("THE LAST CHECKPOINT WAS NOT SAVED",)
TORCH = (r"Root Cause", r"rank +: {rank} ")
NO_LAUNCHER = (r"ends because torch's launcher",)
WORKER_DIED, WORKER_STUCK, WORKER_RAISED = (
    rf"Environment \d {how}" for how in ("died", "did not answer within 1 s", "raised InjectedError: injected")
)
MAX_RETRY = r"\(failure 4 in a row, env.manager.max_retry is 3\)"

FAULTS = [
    # A rank dies.
    Fault("SIGKILL", (0,), DIES, SAYS_KILLED),
    Fault("SIGKILL", (1,), DIES, SAYS_KILLED, mode="ppo"),
    Fault("SIGKILL", (0,), DIES, (*TORCH, "SIGKILL"), stage="learn", by="torchrun", mode="ppo"),
    Fault("SIGKILL", (1,), DIES, (*TORCH, "SIGKILL"), stage="learn", by="torchrun"),
    Fault("SIGKILL", (0,), DIES, SAYS_KILLED, stage="evaluate", manager="subprocess"),
    Fault("SIGKILL", (0,), DIES, SAYS_KILLED, stage="save"),
    Fault("SIGKILL", (1,), DIES, SAYS_KILLED, stage="save"),
    Fault("SIGKILL", (0,), WAS_KILLED, by="itself", manager="subprocess"),
    Fault("step: raise", (0,), DIES, SAYS_RAISED),
    Fault("step: raise", (1,), DIES, SAYS_RAISED),
    Fault("step: raise", (0,), DIES, SAYS_RAISED, stage="evaluate"),
    Fault("exception", (0,), DIES, SAYS_RAISED, stage="learn", mode="ppo"),
    Fault("exception", (1,), DIES, SAYS_RAISED, stage="learn", manager="subprocess"),
    Fault("step: os._exit", (0,), DIES, SAYS_GONE),
    Fault("step: os._exit", (1,), DIES, SAYS_GONE),
    Fault("step: SystemExit", (0,), DIES, SAYS_LEFT, mode="ppo"),
    Fault("step: SystemExit", (1,), DIES, SAYS_LEFT, mode="ppo"),
    # A rank hangs.
    Fault("SIGSTOP", (0,), HANGS, SAYS_STOPPED),
    Fault("SIGSTOP", (1,), HANGS, SAYS_STOPPED, stage="learn", manager="subprocess"),
    Fault("SIGSTOP", (1,), HANGS, (*TORCH, "its process is stopped"), by="torchrun"),
    Fault("step: loop", (0,), HANGS, SAYS_HANGS),
    Fault("step: loop", (1,), HANGS, SAYS_HANGS, mode="ppo"),
    Fault("step: loop", (0,), HANGS, (r"no progress for \d+ s in 'collect'",), by="itself"),
    Fault("step: GIL", (0,), HANGS, SAYS_KEEPS, mode="ppo"),
    Fault("step: GIL", (1,), HANGS, SAYS_KEEPS),
    Fault("step: sleep", (0,), HANGS, SAYS_HANGS, stage="evaluate"),
    # Signals to one rank, to all, to the launcher.
    Fault("SIGTERM", (0,), TERMINATED, SAYS_SAVED),
    Fault("SIGTERM", (1,), TERMINATED, SAYS_SAVED, restarts=1),
    Fault("SIGTERM", (0, 1), TERMINATED, SAYS_SAVED, mode="ppo"),
    Fault("nothing", (0,), TERMINATED, SAYS_SAVED, (TERM,), manager="subprocess"),
    Fault("SIGUSR1", (0,), WARNED, SAYS_SAVED, stage="save"),
    Fault("SIGUSR1", (1,), WARNED, SAYS_SAVED, mode="ppo"),
    Fault("nothing", (0,), WARNED, SAYS_SAVED, (USR1,)),
    Fault("step: slow", (0,), WARNED, SAYS_SAVED, (USR1, TERM), restarts=1),
    Fault("SIGINT", (1,), INTERRUPTED, SAYS_SAVED, stage="learn"),
    Fault("nothing", (0,), INTERRUPTED, SAYS_SAVED, (INT,), mode="ppo"),
    Fault("nothing", (0,), INTERRUPTED, SAYS_SAVED, (INT,), by="itself", manager="subprocess"),
    Fault("step: slow", (0,), End(130, 5), (), (INT, INT)),
    Fault("step: slow", (0,), End(-INT, 5), (), (INT, INT), by="itself"),
    Fault("nothing", (0,), WAS_KILLED, NO_LAUNCHER, (KILL,)),
    Fault("nothing", (0,), WAS_KILLED, NO_LAUNCHER, (KILL,), by="torchrun", manager="subprocess"),
    # An environment's process fails.
    Fault("step: kill", (0,), RECOVERS, (WORKER_DIED,), manager="subprocess"),
    Fault("step: kill", (1,), RECOVERS, (WORKER_DIED,), manager="subprocess", mode="ppo"),
    Fault("step: kill", (0,), FAILS, (WORKER_DIED, MAX_RETRY), times=99, manager="subprocess"),
    Fault("step: kill", (1,), FAILS, (WORKER_DIED, MAX_RETRY), times=99, manager="subprocess"),
    Fault("step: sleep", (1,), RECOVERS, (WORKER_STUCK,), manager="subprocess", words=("env.manager.step_timeout=1",)),
    Fault("step: stop", (0,), RECOVERS, (WORKER_STUCK,), manager="subprocess", words=("env.manager.step_timeout=1",)),
    Fault("step: raise", (1,), RECOVERS, (WORKER_RAISED,), manager="subprocess", mode="ppo"),
    Fault("step: raise", (0,), FAILS, (WORKER_RAISED, MAX_RETRY), times=99, manager="subprocess", by="itself"),
    Fault("kill nurseries", (1,), RECOVERS, (WORKER_DIED,), manager="subprocess"),
    # Numbers go wrong.
    Fault("step: nan", (0,), FAILS, SAYS_NAN),
    Fault("step: nan", (1,), FAILS, SAYS_NAN, mode="ppo", manager="subprocess"),
    Fault("flip", (0,), FAILS, SAYS_DRIFT, stage="learn"),
    Fault("flip", (1,), FAILS, SAYS_DRIFT, stage="learn", mode="ppo"),
    # The disk.
    Fault("disk full for a while", (0,), RECOVERS, SAYS_FULL, stage="save"),
    Fault("disk full for a while", (1,), RECOVERS, SAYS_FULL, stage="save"),
    Fault("disk full", (0,), End(1, 90), SAYS_NOT_SAVED),
    Fault("disk full", (1,), End(1, 90), SAYS_NOT_SAVED),
    Fault("read-only", (0,), End(1, 90), SAYS_NOT_SAVED, by="itself"),
    Fault("delete", (0,), RECOVERS),
    # Restarts.
    Fault("SIGKILL", (0,), RECOVERS, (*SAYS_KILLED, *SAYS_AGAIN), restarts=1),
    Fault("SIGKILL", (1,), RECOVERS, (*SAYS_KILLED, *SAYS_AGAIN), restarts=1, mode="ppo", manager="subprocess"),
    Fault("SIGKILL", (0,), RECOVERS, (*SAYS_KILLED, *SAYS_AGAIN), restarts=1, stage="save"),
    Fault("step: raise", (1,), RECOVERS, (*SAYS_RAISED, *SAYS_AGAIN), restarts=1, mode="ppo"),
    Fault("SIGSTOP", (0,), End(0, 90, hangs=True), (*SAYS_STOPPED, *SAYS_AGAIN), restarts=1),
    Fault("SIGKILL", (1,), RECOVERS, (r"resumed from iteration_",), restarts=1, by="torchrun"),
    Fault("SIGKILL", (0,), RECOVERS, (*SAYS_AGAIN, r"restart 2 of 2"), times=2, restarts=2),
    Fault("SIGKILL", (1, 0), RECOVERS, SAYS_AGAIN, restarts=2, stage="learn"),
]


class Outcome(NamedTuple):
    """How a run ended, and all that is wrong about that."""

    status: int | None
    seconds: float
    last: str
    wrong: list[str]


def command(fault: Fault, port: int) -> list[str]:
    arguments = [*MODES[fault.mode], *COMMON, f"env.manager.type={fault.manager}", *fault.words]
    arguments += [f"max_train_iter={ITERATIONS}"] if fault.reaches_its_limit else []
    if fault.by == "torchrun":
        options = ["--nproc_per_node=2", "--master_addr=127.0.0.1", f"--master_port={port}"]
        options += [f"--max-restarts={fault.restarts}", "-m", "ding_lite"]
        return [sys.executable, "-m", "torch.distributed.run", *options, *arguments]
    nproc = 1 if fault.by == "itself" else 2
    return ding_lite("--nproc", str(nproc), "--max-restarts", str(fault.restarts), *arguments)


def inject(fault: Fault, folder: Path) -> Outcome:
    """Run one item in an empty folder."""
    (folder / "tmp").mkdir()
    shared = abandoned_memory()
    env = {FAULT: json.dumps(asdict(fault)), "TMPDIR": str(folder / "tmp")}
    if fault.end.hangs:
        env["DING_LITE_TIMEOUT"] = str(TIMEOUT)
    powerless = ["setpriv", "--bounding-set=-dac_override"] if fault.do == "read-only" and os.getuid() == 0 else []
    process = start([*powerless, *command(fault, free_port())], env, cwd=folder)
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(process.communicate)
        try:
            wait_until((folder / HAPPENED).exists, process, START)
            signal_launcher(process, fault.to_launcher)
            wrong = wait_for_the_end(process, folder, fault.end.limit)
            seconds = time.time() - happened(folder)[0]
        except AssertionError as error:
            wrong, seconds = [str(error)], 0.0
        finally:
            kill_marked(process.mark)  # type: ignore[attr-defined]
        out, err = ending.result(timeout=60)
    (folder / "out").write_text(out + err)
    if process.returncode != fault.end.status:
        wrong.append(f"status {process.returncode}, expected {fault.end.status}")
    wrong += wrong_words(fault, out + err) + leftovers(fault, folder, shared) + broken_run(fault, folder)
    lines = [line for line in err.splitlines() if line.strip()]
    return Outcome(process.returncode, seconds, lines[-1].strip() if lines else "", wrong)


def happened(folder: Path) -> tuple[float, int]:
    """When the last fault happened, and the port where the ranks met."""
    moment, port = (folder / HAPPENED).read_text().split()
    return float(moment), int(port)


def signal_launcher(process: subprocess.Popen[str], signals: Signals) -> None:
    for number in signals:
        time.sleep(0.3)  # what came before has been noticed
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number) if number == INT else os.kill(process.pid, number)


def wait_for_the_end(process: subprocess.Popen[str], folder: Path, limit: float) -> list[str]:
    """Return when no process of the run is left, or with what is left `PATIENCE * limit` s after the last fault."""
    limit *= PATIENCE
    while left := marked(process):
        if time.time() - happened(folder)[0] > limit:
            return [f"after {limit:g} s there are still {left}"]
        time.sleep(0.05)
    return []


def marked(process: subprocess.Popen[str]) -> list[str]:
    """Return the command lines of what still runs."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={process.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):  # type: ignore[attr-defined]
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(f"{folder.name} ({words[:60]})")
    return found


def wrong_words(fault: Fault, text: str) -> list[str]:
    """Return what is wrong with the end of the output; where a run recovered, with all of it."""
    lines = text.splitlines()
    end = " ".join(" ".join(lines if fault.end.status == 0 else lines[-60:]).split())
    patterns = [pattern.replace("{rank}", str(fault.ranks[0])) for pattern in fault.says]
    wrong = [f"it does not say '{pattern}'" for pattern in patterns if not re.search(pattern, end)]
    torn = "frame #0: " in text and KILL not in fault.to_launcher  # who asks a store that vanishes then, gets one
    return wrong + ["it shows a C++ backtrace"] * torn


def leftovers(fault: Fault, folder: Path, shared: set[str]) -> list[str]:
    """Return what is left of files, shared memory and ports that should not be."""
    wrong = [f"/dev/shm/{name} is left" for name in memory_left_since(shared, 30)]
    kept = {name for name, _ in checkpoints(folder / "run")}
    for path in sorted(path for path in folder.rglob("*") if path.name not in ("out", "tmp")):
        name = str(path.relative_to(folder))
        match = KNOWN.fullmatch(name)
        torn = match and (match["temporary"] or (match["checkpoint"] and match["checkpoint"] not in kept))
        excused = TORCHS.match(name) or (KILL in fault.to_launcher and OURS.match(name))
        if (torn and fault.end.status not in CUT_OFF) or not (
            match or excused or (path.is_dir() and name.startswith("run"))
        ):
            wrong.append(f"{name} is left")
    with suppress(FileNotFoundError):  # the run never had a port
        port, end = happened(folder)[1], time.monotonic() + 30
        while (error := port_error(port)) and time.monotonic() < end:  # another run's, which got the same number?
            time.sleep(0.1)
        wrong += [f"port {port}: {error}"] if error else []
    return wrong


def port_error(port: int) -> OSError | None:
    """Return why nobody can listen on a port; None: somebody can."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # some connections may still be fading away
        try:
            server.bind(("127.0.0.1", port))
            server.listen()
        except OSError as error:
            return error
    return None


def broken_run(fault: Fault, folder: Path) -> list[str]:
    """Return what is wrong with the checkpoints, the result and the counters."""
    run, status, wrong = folder / "run", fault.end.status, []
    try:
        states(run)
    except Exception as error:  # whatever it is
        wrong.append(f"no checkpoint can be loaded: {type(error).__name__}: {error}")
    reason = read_json(run / "result.json")["stop_reason"] if (run / "result.json").exists() else None
    interrupted = status in (130, 138, 143) and fault.to_launcher != (INT, INT)
    expected = "max_train_iter" if fault.reaches_its_limit else "interrupted" if interrupted else None
    if reason != expected and not (reason is None and fault.has_bad_disk):
        wrong.append(f"result.json says {reason}, expected {expected}")
    iterations = [line["train_iter"] for line in read_metrics(run) if any(key.startswith("train/") for key in line)]
    if fault.has_bad_disk:
        return wrong
    if iterations != list(range(LOG, LOG * (len(iterations) + 1), LOG)):
        wrong.append(f"metrics.jsonl has the iterations {iterations}")
    if status == 0 and iterations[-1:] != [ITERATIONS]:
        wrong.append(f"it ended after iteration {iterations[-1:]}, expected {ITERATIONS}")
    return wrong


def inject_in(parent: Path, number: int, fault: Fault) -> Outcome:
    folder = parent / str(number)
    folder.mkdir(parents=True)
    outcome = inject(fault, folder)
    if not outcome.wrong:
        shutil.rmtree(folder)
    return outcome


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=len(FAULTS), help="of faults, the first ones of the list")
    parser.add_argument("--only", default="", help="regular expression of the faults to inject")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    args = parser.parse_args(argv)
    faults = [(n, fault) for n, fault in enumerate(FAULTS[: args.number]) if re.search(args.only, f"{n} {fault}")]
    parent = Path(tempfile.mkdtemp(prefix="faults_"))
    failed, began = 0, time.time()
    with ThreadPoolExecutor(args.jobs) as pool:
        outcomes = pool.map(lambda item: inject_in(parent, *item), faults)
        for (number, fault), outcome in zip(faults, outcomes, strict=True):
            verdict = "FAILED" if outcome.wrong else "ok"
            print(f"{number:2} {verdict:6} {fault!s:85} status {outcome.status!s:4} "
                  f"{outcome.seconds:5.1f} s  {outcome.last[:150]}", flush=True)  # fmt: skip
            for line in outcome.wrong:
                print(f"     {line} ({parent / str(number)})", flush=True)
            failed += bool(outcome.wrong)
    print(f"{len(faults)} faults, {failed} failed, {time.time() - began:.0f} s")
    if not failed:
        shutil.rmtree(parent)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

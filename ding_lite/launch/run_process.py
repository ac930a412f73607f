"""Runs of the command line, as processes of this machine or as jobs of a cluster, and the signals for them.

submitit submits, watches and requeues jobs. A job that the cluster preempts, or that reaches its time limit, gets
SIGUSR1: its ranks save a checkpoint and end, submitit requeues it, and it continues from the checkpoint.
"""

from __future__ import annotations

import argparse
import ast
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeVar

from ding_lite.utils.directory_lock import find_trap_inside, is_active
from ding_lite.utils.disk import check_temporary_directory
from ding_lite.utils.ranks.interrupt import SIGNALS, end_with_parent, restoring_signals
from ding_lite.utils.ranks.launch_environment import check_processes, loopback, set_variables, usable_cores
from ding_lite.utils.registry import UserError, load_extra

PREEMPTION = {"SUBMITIT_PREEMPT_SIGNAL": "USR1"}  # a signal that ranks handle too, because SLURM may send it to them
TIME_LIMIT = 60  # minutes of a job, after which it is requeued; submitit's own default is 5
PERIOD = 0.2  # seconds between two looks at a job's process
LOOK_PERIOD = 0.5  # seconds between two looks at several runs
REQUEUES = 10**6  # time limits that a job may reach; submitit's own default is 3


class RunProcess(subprocess.Popen[bytes]):
    """A process of the command line, which receives SIGTERM when this process ends.

    Args:
        words: the words after `ding_lite`.
        side_by_side: number of processes that share this machine's cores, which are divided among them.
    """

    def __init__(self, words: Sequence[str], side_by_side: int = 1) -> None:
        threads = str(max(usable_cores() // side_by_side, 1))  # otherwise each would use all cores
        environment = {**({"OMP_NUM_THREADS": threads} if side_by_side > 1 else {}), **os.environ}
        check_temporary_directory()
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 closed by close()
        super().__init__(
            [sys.executable, "-m", "ding_lite", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,  # Ctrl-C then reaches the child once, through this process
            preexec_fn=partial(end_with_parent, signal.SIGTERM, os.getpid()),
        )

    @property
    def status(self) -> int | None:
        """Exit status, None before its end."""
        return self.poll()

    def last_line(self) -> str:
        """Return the last line that it printed, or else its exit status."""
        self._output.seek(0)
        said = self._output.read().strip().splitlines()
        return said[-1] if said else f"exit status {self.status}"

    def close(self) -> None:
        """End it if it runs, wait for its end, and forget what it printed."""
        self.terminate()
        self.wait()
        self._output.close()


@contextmanager
def passing_signals_on(processes: Callable[[], Iterable[RunProcess | SubmittedRun]]) -> Iterator[Callable[[], int]]:
    """Pass this process's signals on to others. The value is a function that returns the first that arrived, or 0."""
    received: list[int] = []

    def handle(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        for process in processes():
            process.send_signal(signum)

    with restoring_signals():
        for number in SIGNALS:
            signal.signal(number, handle)
        yield lambda: received[0] if received else 0


def open_cluster(args: argparse.Namespace, folder: Path) -> Any:
    """Return submitit's executor of the cluster that `--submit` names, with the options of the command; else None.

    A job asks for as many cores as it starts processes, unless an option says otherwise. What it prints goes into
    `folder`/jobs, which all machines must see.
    """
    if args.submit is None:
        return None
    with set_variables(PREEMPTION):
        submitit = load_extra("submitit", "slurm", "--submit")
    options: dict[str, Any] = {"name": "ding_lite", "timeout_min": TIME_LIMIT, "cpus_per_task": args.nproc}
    for word in args.cluster_words:
        key, _, text = word.partition(".")[2].partition("=")
        options[key] = text
        with suppress(ValueError, SyntaxError):
            options[key] = ast.literal_eval(text)
    for key, value in [("directory", str(folder)), *options.items()]:
        _check_printable(f"submit.{key}", value)
    if trap := find_trap_inside(folder / "jobs"):  # submitit unpickles what jobs leave there
        raise UserError(f"--submit {args.submit}: {trap}")
    try:
        requeues = {f"{args.submit}_max_num_timeout": REQUEUES}
        executor = submitit.AutoExecutor(folder / "jobs", cluster=args.submit, **requeues)
        executor.update_parameters(**options)
    except RuntimeError:
        raise UserError(
            f"--submit {args.submit}: this machine has no SLURM, srun was not found. Run the command on a login node "
            "of the cluster, or leave --submit out."
        ) from None
    except (NameError, ValueError, AssertionError) as error:
        with suppress(OSError):  # jobs of other commands have files there
            (folder / "jobs").rmdir()
        raise UserError(f"--submit {args.submit}: {str(error).splitlines()[0]}") from None
    return executor


def _check_printable(path: str, value: Any) -> None:
    """Check the texts of an option, which becomes lines of a script that a shell runs."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_printable(path, key)
            _check_printable(f"{path}.{key}", item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            _check_printable(path, item)
    elif not str(value).isprintable():
        raise UserError(f"{path}: expected a text without line breaks and control characters, got {str(value)!r}.")


class SeparateRuns:
    """Starts runs that have processes of their own on this machine or, with `--submit`, as jobs of a cluster.

    Args:
        args: the options of the command, of which `jobs` may be None.
        folder: the directory of the runs.
        most: how many runs there may be.

    Attributes:
        jobs: how many runs there may be at a time.
    """

    def __init__(self, args: argparse.Namespace, folder: Path, most: int) -> None:
        self._executor = open_cluster(args, folder)
        self.jobs = args.jobs or (most if self._executor else 1)
        self._side_by_side = self.jobs * args.nproc if self.jobs > 1 else 1
        if not self._executor:
            check_processes(args.nproc * min(self.jobs, most), "--jobs")

    def start(self, words: Sequence[str], directory: str) -> RunProcess | SubmittedRun:
        """Start a run of the command line that writes into `directory`; the words follow `ding_lite`."""
        if self._executor is None:
            return RunProcess(words, self._side_by_side)
        again = ["--resume"] * (words[0] == "train")  # a job that is requeued does the same, and so continues its run
        return SubmittedRun(self._executor, Job([*words, *again]), directory)

    def wait(self, active: int, look: Callable[[], None]) -> None:
        """Wait until it is time to look at the runs again."""
        time.sleep(LOOK_PERIOD)


class WaitingRun(Protocol):
    """A run that has not been started: its directory, and its command line after `ding_lite`. `process` is set then."""

    directory: str
    words: Sequence[str]
    process: Any


Waiting = TypeVar("Waiting", bound=WaitingRun)


def run_all(
    runs: Iterable[Waiting],
    starter: Any,
    signalled: Callable[[], int],
    on_end: Callable[[Waiting], None],
    on_look: Callable[[Sequence[Waiting]], None],
) -> None:
    """Start runs, as many at a time as there may be, and wait for their ends; after a signal none is started.

    `starter` has the methods of `SeparateRuns`. `on_end` is called with each run that has ended, and `on_look` from
    time to time with those that have not.
    """
    waiting, active = list(runs), list[Waiting]()
    while active or (waiting and not signalled()):
        while waiting and len(active) < starter.jobs and not signalled():
            run = waiting.pop(0)
            run.process = starter.start(run.words, run.directory)
            active.append(run)
        starter.wait(len(active), lambda: on_look(active))
        for run in [run for run in active if run.process.status is not None]:
            active.remove(run)
            on_end(run)
        on_look(active)


def process_words(args: argparse.Namespace) -> list[str]:
    """Return the options about the processes of any run."""
    return ["--nproc", str(args.nproc), "--max-restarts", str(args.max_restarts)]


@dataclass
class Job:
    """What a job does: it runs a command line, whose `words` follow `ding_lite`."""

    words: Sequence[str]

    def __call__(self) -> tuple[int, str]:
        """Return the exit status of the process, and the last line that it printed."""
        submitit = load_extra("submitit", "slurm", "--submit")
        place = submitit.JobEnvironment()
        if place.num_tasks > 1:  # each task of the job is a rank
            submitit.helpers.TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
            os.environ.update({"MASTER_ADDR": loopback()} if place.num_nodes == 1 else {})
        process = RunProcess(self.words)
        with passing_signals_on(lambda: [process]) as signalled:
            while process.status is None:
                time.sleep(PERIOD)
        if process.status and signalled() == signal.SIGUSR1:
            signal.raise_signal(signal.SIGUSR1)  # now for submitit's own handler, which requeues the job
        if process.status and signalled():
            sys.exit(128 + signalled())  # without a result: the job was cancelled, or the cluster starts it again
        return process.status, process.last_line() if process.status else ""

    def checkpoint(self) -> Any:
        """Return what the job does after it was requeued: the same."""
        return load_extra("submitit", "slurm", "--submit").helpers.DelayedSubmission(self)


class SubmittedRun:
    """A run of the command line in a job of a cluster, see `open_cluster`; it is used as `RunProcess` is."""

    def __init__(self, executor: Any, job: Job, directory: str) -> None:
        self._directory, self._signum, self._is_local = directory, 0, executor.cluster == "local"
        self._end: tuple[int, str] | None = None  # status and last line
        try:
            with set_variables(PREEMPTION):
                self._job = executor.submit(job)
        except RuntimeError as error:
            said = str(error).strip().splitlines() or ["no reason given"]
            raise UserError(f"The cluster refuses the job of '{directory}': {said[-1]}") from None

    @property
    def status(self) -> int | None:
        saves = os.path.isdir(self._directory) and is_active(self._directory)  # if it was cancelled
        if self._end is None and self._job.done(force_check=bool(self._signum)) and not saves:
            try:  # a failed task decides the end of a job of several tasks
                results = [(128 + self._signum, "")] if self._signum else self._job.results()
                self._end = max(results, key=lambda result: bool(result[0]))
            except RuntimeError as error:  # the job left no result; the message ends with its log
                self._end = 1, str(error).strip().splitlines()[-1]
        return self._end[0] if self._end else None

    def send_signal(self, signum: int) -> None:
        """Cancel the job, unless it has ended; its run saves a checkpoint."""
        if self.status is None and not self._signum:
            self._signum = signum
            if self._is_local:  # its own cancel() kills after a second
                os.kill(int(self._job.job_id), signal.SIGTERM)
            else:
                self._job.cancel(check=False)

    def last_line(self) -> str:
        return (self._end and self._end[1]) or f"exit status {self.status}"

    def close(self) -> None:
        """Cancel the job if it has not ended, wait for its end, and remove its files unless it failed."""
        self.send_signal(signal.SIGTERM)
        while self.status is None:
            time.sleep(PERIOD)
        if self._signum or self.status == 0:
            folder = self._job.paths.folder
            for path in folder.iterdir():
                if path.resolve().name.startswith(f"{self._job.job_id}_"):  # a link to one of its files, too
                    path.unlink()
            with suppress(OSError):  # other jobs have files there
                folder.rmdir()

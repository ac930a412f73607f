"""Executes one trial: a run for each seed, one after another, until the last has ended or the trial is pruned."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ding_lite.sweep.scores import Evaluations, Marks
from ding_lite.sweep.study import RUNS, directory_number
from ding_lite.utils.checkpoint.run_directory import new_name, read_result
from ding_lite.utils.directory_lock import is_active
from ding_lite.utils.registry import UserError
from ding_lite.utils.run_process import RunProcess

Start = Callable[[Sequence[str]], RunProcess]  # starts a process with the words after `ding_lite`


@dataclass(frozen=True)
class Ending:
    """How a trial ended.

    Attributes:
        state: COMPLETE, PRUNED, FAIL or INTERRUPTED.
        value: its score, if it is complete.
        error: why it failed.
    """

    state: str
    value: float | None = None
    error: str = ""


@dataclass
class TrialRuns:
    """The runs of a trial.

    The runs of an interrupted trial are continued from their newest checkpoints.

    Attributes:
        trial: Optuna's trial.
        seeds: a run for each.
        folder: the sweep's directory.
        marks: the moments at which trials are compared.
        words: returns the words after `ding_lite` that start a run, from its seed and its directory.
        resuming: options of the command that continues a run.
        start: starts a process.
        process: the process of the current run; None between two runs.
    """

    trial: Any
    seeds: Sequence[int]
    folder: Path
    marks: Marks
    words: Callable[[int, str], list[str]]
    resuming: Sequence[str]
    start: Start
    process: RunProcess | None = None
    scores: list[float] = field(default_factory=list)
    _pruned: bool = False
    _resumed: bool = False
    _reading: Evaluations | None = None
    _told: set[int] = field(default_factory=set)

    def advance(self) -> Ending | None:
        """Start the next run, or check the current one. Return how the trial ended, None before its end."""
        if self.process is None:
            return self._begin_run()
        status = self.process.status
        self._report(ended=status == 0)
        if status is None:
            return None
        said = self.process.last_line()
        self._close()
        if self._pruned:
            return Ending("PRUNED")
        if status:
            signalled = status < 0 or status > 128
            interrupted = signalled and read_result(str(self.directory)).get("stop_reason") == "interrupted"
            if self._resumed and not interrupted:  # killed before its first checkpoint was complete: it starts anew
                self._resumed = False
                self._name_run("")
                return None
            return Ending("INTERRUPTED") if interrupted else Ending("FAIL", error=said)
        return self._end_run()

    def stop(self, wait: bool = True) -> None:
        """Let the current run save and end."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            if wait:
                self.process.wait()
                self._close()

    def _close(self) -> None:
        if self.process is not None:
            self.process.close()
            self.process = None

    @property
    def seed(self) -> int:
        """Seed of the current run."""
        return self.seeds[len(self.scores)]

    @property
    def directory(self) -> Path:
        """Where the current run writes.

        Raises:
            UserError: the storage, which others may write, names something outside the sweep's directory.
        """
        name = self.trial.user_attrs[RUNS][str(self.seed)]
        if not isinstance(name, str) or name != os.path.basename(name) or name in ("", ".", ".."):
            raise UserError(
                f"The sweep's storage says that trial {self.trial.number} writes into {name!r}: expected the name of "
                f"a directory in '{self.folder}'. Who else writes into the storage? Start another sweep with -o DIR."
            )
        return self.folder / name

    @property
    def _evaluations(self) -> Evaluations:
        """What the current run has recorded."""
        if self._reading is None or self._reading.directory != self.directory:
            self._reading = Evaluations(self.directory)
        return self._reading

    def _begin_run(self) -> Ending | None:
        """Start or continue the run of the next seed, or take its result if there is one."""
        if self.trial.user_attrs.get(RUNS, {}).get(str(self.seed)) and self.directory.is_dir():
            if is_active(self.directory):  # it still writes its last checkpoint
                return None
            if read_result(str(self.directory)).get("stop_reason", "interrupted") != "interrupted":
                self._report(ended=True)
                return Ending("PRUNED") if self._pruned else self._end_run()
            if any(self.directory.glob("ckpt/*.pth.tar")):
                self._resumed = True
                self.process = self.start(["resume", str(self.directory), *self.resuming])
                return None
        path = new_name(str(self.folder / f"trial_{directory_number(self.trial):04}_seed{self.seed}"))
        self._resumed = False
        self._name_run(Path(path).name)
        self.process = self.start(self.words(self.seed, path))
        return None

    def _name_run(self, name: str) -> None:
        """Record where the current run writes, for whoever continues it."""
        self.trial.set_user_attr(RUNS, {**self.trial.user_attrs.get(RUNS, {}), str(self.seed): name})

    def _end_run(self) -> Ending | None:
        """Take the score of the current run, and return the trial's mean if it was the last one."""
        score = self.marks.final(self._evaluations.read())
        if score is None:
            return Ending("FAIL", error=f"{self.directory} has recorded no evaluation")
        self.scores.append(score)
        if len(self.scores) < len(self.seeds):
            return None
        return Ending("COMPLETE", sum(self.scores) / len(self.scores))

    def _report(self, ended: bool) -> None:
        """Report new marks to the pruner, and end the current run if the trial is pruned.

        The value of a mark is the mean over the scores of the seeds before it and that of this seed so far. It is
        compared with those of other trials at the same mark of the same seed.
        """
        place = len(self.scores)
        for mark, score in self.marks.read(self._evaluations.read(), ended).items():
            step = place * self.marks.count + mark
            if step not in self._told:
                self._told.add(step)
                self.trial.report((sum(self.scores) + score) / (place + 1), step)
        last = place + 1 == len(self.seeds) and ended
        if not self._pruned and not last and self._told and self.trial.should_prune():
            self._pruned = True
            if self.process is not None:
                self.process.send_signal(signal.SIGTERM)

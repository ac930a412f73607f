"""Runs that are not trained: they record an evaluation each time they are looked at."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

EVALUATIONS, STEPS = 10, 10  # of a run, and env steps from one to the next


class FakeRun:
    """A run whose return grows by `policy.learn.learning_rate` and its seed with each evaluation."""

    started: list[list[str]]  # the words of all runs
    failing: set[str]  # learning rates of runs that fail
    damaged: bool  # whether no checkpoint can be read
    looks: int  # at all runs
    look: Callable[[int], object]  # called at each look, with its number

    @classmethod
    def reset(cls) -> None:
        cls.started, cls.failing, cls.damaged, cls.looks, cls.look = [], set(), False, 0, lambda count: None

    def __init__(self, words: Sequence[str], side_by_side: int = 1) -> None:
        FakeRun.started.append(list(words))
        if words[0] == "resume":
            self._path = Path(words[1])
            self._values = json.loads((self._path / "values.json").read_text())
        else:
            values = dict(word.split("=", 1) for word in words if "=" in word)
            self._path = Path(values["exp_name"])
            self._path.mkdir(parents=True)
            self._values = [values["policy.learn.learning_rate"], int(words[words.index("-s") + 1])]
            (self._path / "values.json").write_text(json.dumps(self._values))
        self._fails = self._values[0] in FakeRun.failing or (words[0] == "resume" and FakeRun.damaged)
        self._file = self._path / "metrics.jsonl"
        self._status: int | None = None

    @property
    def status(self) -> int | None:
        FakeRun.looks += 1
        FakeRun.look(FakeRun.looks)
        count = len(self._file.read_text().splitlines()) if self._file.exists() else 0
        if self._status is None and self._fails:
            (self._path / "result.json").unlink(missing_ok=True)
            self._status = 1
        elif self._status is None and count == EVALUATIONS:
            self._end("max_env_step", 0)
        elif self._status is None:
            (self._path / "result.json").unlink(missing_ok=True)
            value = (count + 1) * float(self._values[0]) + self._values[1]
            self._write({"envstep": STEPS * (count + 1), "train_iter": 0, "time": 0, "eval/return_mean": value})
        return self._status

    def _write(self, record: dict[str, Any]) -> None:
        with open(self._file, "a") as file:
            file.write(json.dumps(record) + "\n")

    def _end(self, reason: str, status: int) -> None:
        self._status = status
        (self._path / "result.json").write_text(json.dumps({"stop_reason": reason}))

    def send_signal(self, signum: int) -> None:
        if self._status is None:
            (self._path / "ckpt").mkdir(exist_ok=True)
            (self._path / "ckpt" / "ckpt_last.pth.tar").touch()
            self._end("interrupted", 128 + signal.SIGTERM)

    def last_line(self) -> str:
        return "it is unlucky"

    def close(self) -> None:
        self.send_signal(signal.SIGTERM)

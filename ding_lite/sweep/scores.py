"""The score of a run and of its beginning, from the evaluations that it has recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ding_lite.results.run import METRICS, RETURN
from ding_lite.utils.records import RecordReader

PARTS = 20  # marks of a run with a limit
SCORES = ("best", "last")
LIMITS = {"max_env_step": "envstep", "max_train_iter": "train_iter", "max_iter": "train_iter"}  # to keys of a record
FAR = 10**6  # more marks than a run without a limit has evaluations


@dataclass(frozen=True)
class Marks:
    """The moments at which runs of a sweep are compared.

    A run with a limit has `PARTS` of them, equally spaced up to the limit, so that runs with evaluations at different
    moments can be compared. Without a limit, each evaluation is a mark.

    Attributes:
        limit: how long a run is; 0: unlimited.
        axis: key of a record in which the limit is counted.
        score: 'best' or 'last' evaluation so far.
    """

    limit: int
    axis: str
    score: str

    @property
    def count(self) -> int:
        """Number of marks that each run has room for."""
        return PARTS if self.limit else FAR

    def place(self, step: int) -> float:
        """Return how far a trial is at a mark, in the count of `axis` over all its runs.

        Args:
            step: number of the mark, after the marks of the runs before.
        """
        run, mark = divmod(step, self.count)
        return self.limit * (run + (mark + 1) / PARTS)

    def read(self, records: Sequence[Mapping[str, Any]], ended: bool) -> dict[int, float]:
        """Return the scores at the marks that a run has passed, by the marks' numbers.

        Args:
            records: what `Evaluations` has read.
            ended: whether the run has ended; it then keeps its score at the marks that it did not reach.
        """
        points = [(record[self.axis], record[RETURN]) for record in records if record.get(RETURN) is not None]
        if not self.limit:
            return {k: self._score([value for _, value in points[: k + 1]]) for k in range(len(points))}
        reached = max((record[self.axis] for record in records), default=0)
        scores = {}
        for mark in range(PARTS):
            at = self.limit * (mark + 1) / PARTS
            values = [value for x, value in points if x <= at]
            if values and (ended or reached > at):
                scores[mark] = self._score(values)
        return scores

    def final(self, records: Sequence[Mapping[str, Any]]) -> float | None:
        """Return the score of a whole run; None if it has no evaluation."""
        values = [record[RETURN] for record in records if record.get(RETURN) is not None]
        return self._score(values) if values else None

    def _score(self, values: Sequence[float]) -> float:
        return max(values) if self.score == "best" else values[-1]


def find_marks(limits: Mapping[str, int], score: str) -> Marks:
    """Return the marks of runs with some limits."""
    for key, axis in LIMITS.items():
        if key in limits:
            return Marks(limits[key], axis, score)
    return Marks(0, "envstep", score)


class Evaluations:
    """The evaluations that a run has recorded, and its newest record. Each read goes on where the last one ended.

    Args:
        directory: the run's directory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._reader, self._records = RecordReader(directory / METRICS), list[dict[str, Any]]()

    def read(self) -> Sequence[Mapping[str, Any]]:
        """Return the records with an evaluation, and the newest record, which says how far the run is."""
        added = self._reader.read()
        if self._reader.cut:
            self._records.clear()
        for record in added:
            if self._records and self._records[-1].get(RETURN) is None:
                self._records.pop()
            self._records.append(record)
        return self._records

"""A tracker whose service is a file of the experiment directory, and which can fail."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ding_lite.utils.registry import TRACKER_REGISTRY
from ding_lite.utils.tracker.services import Records, Tracker

FILE = "notebook.jsonl"


@TRACKER_REGISTRY.register("notebook")
class Notebook(Tracker):
    """`options` may have `fault`, a method, and `how` it fails: 'raise', 'exit' or 'block'."""

    def start(self) -> str:
        continued = bool(self.id)
        self.id = self.id or "page-1"
        self._note("start", name=self.job.name, group=self.job.group, continued=continued, config=self.job.config)
        return f"tracker: {FILE}"

    def log(self, records: Records) -> None:
        random.seed(1)  # which the training must not notice
        points = [[record[self.job.axis], self.job.figures(record)] for record in records]
        self._note("log", points=points)

    def finish(self, result: Mapping[str, Any]) -> None:
        self._note("finish", result=result)

    def _note(self, event: str, **what: Any) -> None:
        with Path(self.job.exp_dir, FILE).open("ab", buffering=0) as file:  # one write, which readers see whole
            file.write(json.dumps({"event": event, "id": self.id, **what}).encode() + b"\n")
        if self.options.get("fault") == event:
            if self.options["how"] == "raise":
                raise RuntimeError(f"the service is\n{self.options.get('state', 'closed today')}")
            if self.options["how"] == "exit":
                raise SystemExit(7)
            time.sleep(3600)


def read(exp_dir: Path, event: str) -> list[dict[str, Any]]:
    """Return what the notebook says about an event."""
    lines = map(json.loads, (exp_dir / FILE).read_text().splitlines())
    return [line for line in lines if line["event"] == event]


def points(exp_dir: Path) -> list[Any]:
    """Return all points, each a step and its figures by name."""
    return [point for line in read(exp_dir, "log") for point in line["points"]]

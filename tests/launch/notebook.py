"""A tracker whose service is a file of the experiment directory, and which can fail."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ding_lite.trackers.trackers import Tracker
from ding_lite.utils import TRACKER_REGISTRY

FILE = "notebook.jsonl"


@TRACKER_REGISTRY.register("notebook")
class Notebook(Tracker):
    """`options` may have `fault`, the method that raises an error, and `state`, of which this complains."""

    def start(self) -> str:
        continued = bool(self.id)
        self.id = self.id or "page-1"
        self._note("start", name=self.name, group=self.group, continued=continued, config=self.config)
        return f"tracker: {FILE}"

    def log(self, records: Sequence[Mapping[str, Any]]) -> None:
        random.seed(1)  # which the training must not notice
        points = [[record[self.axis], self.figures(record)] for record in records]
        self._note("log", points=points)

    def finish(self, result: Mapping[str, Any]) -> None:
        self._note("finish", result=result)

    def _note(self, event: str, **what: Any) -> None:
        with (self.exp_dir / FILE).open("ab", buffering=0) as file:  # one write, which readers see whole
            file.write(json.dumps({"event": event, "id": self.id, **what}).encode() + b"\n")
        if self.options.get("fault") == event:
            print("a service prints", self.options.get("state", ""))
            raise RuntimeError(f"the service is\n{self.options.get('state', 'closed today')}")


def read(exp_dir: Path, event: str) -> list[dict[str, Any]]:
    """Return what the notebook says about an event."""
    lines = map(json.loads, (exp_dir / FILE).read_text().splitlines())
    return [line for line in lines if line["event"] == event]


def points(exp_dir: Path) -> list[Any]:
    """Return all points, each a step and its figures by name."""
    return [point for line in read(exp_dir, "log") for point in line["points"]]

"""Reading files of a run with a JSON object in each line, such as metrics.jsonl, which `ExperimentLogger` writes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from ding_lite.utils.directory_lock import parse_json

CONFIG, METRICS, RESULT = "total_config.py", "metrics.jsonl", "result.json"  # files of a run


def ended_before_learning(directory: str | Path) -> bool:
    """Return whether a run has begun in a directory, but has recorded no learner iteration."""
    records = RecordReader(Path(directory) / METRICS).read()
    return (Path(directory) / CONFIG).is_file() and not any(record.get("train_iter") for record in records)


class RecordReader:
    """Reads the complete lines added to a file of records, which need not exist yet, since the last read.

    Attributes:
        count: lines read so far.
        cut: whether the last read began anew, because a resumed run had cut the file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._place = path, 0  # place in bytes
        self.count, self.cut = 0, False

    def read(self, skip: int = 0) -> list[dict[str, Any]]:
        """Return the new records, without the first `skip` lines of the file and without damaged lines."""
        if not os.path.isfile(self._path):  # the run has not begun; reading a FIFO would not end
            return []
        try:
            with open(self._path, "rb") as file:
                self.cut = os.fstat(file.fileno()).st_size < self._place
                if self.cut:
                    self._place = self.count = 0
                file.seek(self._place)
                added = file.read()
        except OSError:
            return []
        added = added[: added.rfind(b"\n") + 1]
        lines = added.split(b"\n")[:-1]
        new = lines[max(skip - self.count, 0) :]
        self._place += len(added)
        self.count += len(lines)
        found = []
        for line in new:
            with suppress(ValueError):  # a full disk cuts lines
                found.append(parse_json(line))
        return [record for record in found if isinstance(record, dict)]

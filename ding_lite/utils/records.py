"""Reads a file of records, one JSON object a line, while a run adds lines to it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any


class RecordReader:
    """Reads the complete lines added to a file of records since the last read.

    Args:
        path: the file; it need not exist yet.

    Attributes:
        count: lines read so far.
        cut: whether the last read began anew, because a resumed run had cut the file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._place = path, 0  # in bytes
        self.count, self.cut = 0, False

    def read(self, told: int = 0) -> list[dict[str, Any]]:
        """Return the new records, without the first `told` lines of the file and without damaged lines."""
        try:
            with open(self._path, "rb") as file:
                self.cut = os.fstat(file.fileno()).st_size < self._place
                if self.cut:
                    self._place = self.count = 0
                file.seek(self._place)
                added = file.read()
        except OSError:  # the run has not begun
            return []
        added = added[: added.rfind(b"\n") + 1]
        lines = added.split(b"\n")[:-1]
        new = lines[max(told - self.count, 0) :]
        self._place += len(added)
        self.count += len(lines)
        found = []
        for line in new:
            with suppress(ValueError):  # a full disk cuts lines
                record = json.loads(line)
                found += [record] if isinstance(record, dict) else []
        return found

"""One run, as its directory describes it: config, records, result, checkpoints, and what each start was made by."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ding_lite.config import read_saved_run
from ding_lite.utils.checkpoint.origin import read_origins
from ding_lite.utils.directory_lock import CONFIG, METRICS, RESULT, RecordReader, is_active, parse_json, read_json
from ding_lite.utils.disk import explaining
from ding_lite.utils.printable import printable
from ding_lite.utils.registry import ConfigError, UserError, closest
from ding_lite.utils.tree import dotted_items

Floats = NDArray[np.float64]
AXES = {"env_step": "envstep", "iteration": "train_iter", "seconds": "seconds"}  # names of x, and keys of a record
TIME = "time"  # the other key that is not a figure; seconds since 1970
RETURN = "eval/return_mean"
NO_LIMIT = 10**10  # default of the pipelines


@dataclass(frozen=True, eq=False)
class Run:
    """What a run has left behind. Texts from its files are single lines that a terminal can show."""

    path: Path  # the run's directory
    # the compiled config by dotted keys, with the limits of the run and its number of `processes`
    config: Mapping[str, Any]
    result: Mapping[str, Any]  # content of result.json; empty while the run is active, or if it was killed
    active: bool = False  # whether it is being trained now

    @property
    def name(self) -> str:
        """Name of the directory."""
        return printable(self.path.resolve().name)

    @property
    def algorithm(self) -> str:
        """Type of the policy."""
        return printable(str(self.config.get("policy.type", "?")))

    @property
    def env(self) -> str:
        """Gymnasium id of the environment, or else its type."""
        return printable(str(self.config.get("env.env_id") or self.config.get("env.type", "?")))

    @property
    def seed(self) -> int | None:
        return self.config.get("seed")

    @property
    def ending(self) -> str:
        """How the run ended: its stop reason, `running`, or `killed` if it left no result."""
        return "running" if self.active else printable(str(self.result.get("stop_reason", "killed")))

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; a last line that is incomplete is left out."""
        path, records = self.path / METRICS, list[dict[str, Any]]()
        with explaining(f"Cannot read '{path}'"):
            lines = path.read_bytes().splitlines() if path.is_file() else []
        for number, line in enumerate(lines, 1):
            try:
                record = parse_json(line)
                numeric = all(isinstance(value, int | float | None) for value in record.values())
                if not numeric or any(record[key] is None for key in AXES.values()):
                    raise ValueError("a value is not a number")
                records.append(record)
            except (ValueError, AttributeError, KeyError, TypeError):
                if number < len(lines):  # else the run is writing it, or was killed
                    raise UserError(
                        f"'{path}', line {number}: expected a JSON object of numbers with {', '.join(AXES.values())}, "
                        f"got '{line[:60].decode(errors='replace')}'. Delete the line, or leave this run out."
                    ) from None
        return records

    @property
    def keys(self) -> set[str]:
        """Names of all figures that were recorded."""
        return {key for record in self.records for key in record} - {TIME, *AXES.values()}

    def column(self, key: str, x: str = "env_step") -> tuple[Floats, Floats]:
        """Return where a figure was recorded, on the axis `x` of `AXES`, and its values, without null."""
        pairs = [(record[AXES[x]], record[key]) for record in self.records if record.get(key) is not None]
        table = np.array(pairs, np.float64).reshape(-1, 2)
        return table[:, 0], table[:, 1]


class Evaluations:
    """The evaluations that a run has recorded, and its newest record. Each read goes on where the last one ended."""

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


def read_run(path: str | Path) -> Run:
    """Read the run in a directory. Its records are read when they are used."""
    path = Path(path)
    if not (path / CONFIG).is_file():
        raise UserError(f"'{path}' is not the directory of a run: it holds no {CONFIG}.")
    try:
        saved = read_saved_run(path / CONFIG)
    except ConfigError as error:
        raise UserError(f"{error} To read the other runs, leave this one out.") from None
    result = read_json(path / RESULT)
    limits = {name: limit if limit < NO_LIMIT else None for name, limit in saved.limits.items()}
    config = dict(dotted_items(saved.main_config)) | dict(dotted_items(saved.create_config)) | limits
    config = {printable(str(key)): value for key, value in config.items()}
    starts = read_origins(path)
    config["processes"] = result.get("world_size") or (starts[-1]["processes"] if starts else 1)
    return Run(path, config, result, is_active(path))


def find_runs(paths: Iterable[str | Path]) -> list[Run]:
    """Read the runs in some directories, which are runs or contain runs at any depth."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if path.is_file() and path.name in (CONFIG, METRICS, RESULT):
            path = path.parent  # a file of a run means the run
        directories = list(find_directories(path))
        if not path.is_dir():
            raise UserError(
                f"'{path}' does not exist or is not a directory: give the directory of a run, or one with runs."
                f"{closest_path(str(path))}"
            )
        if not directories:
            raise UserError(f"'{path}' contains no run: no {CONFIG} is in it or below it.")
        found |= {directory.resolve(): directory for directory in directories if directory.resolve() not in found}
    return [read_run(path) for path in found.values()]


def find_directories(path: Path) -> Iterator[Path]:
    """Yield the directories of runs at and below a path, in the order of their names; links are not followed."""

    def natural(name: str) -> list[tuple[int, str]]:  # sorts seed10 after seed9
        return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split("([0-9]+)", name)]

    for folder, below, files in os.walk(path):
        if CONFIG in files:
            below.clear()
            yield Path(folder)
        below[:] = sorted((name for name in below if not name.startswith(".")), key=natural)


def check_figure(runs: Sequence[Run], key: str) -> None:
    """Check that at least one run has recorded a figure."""
    known = set().union(*(run.keys for run in runs))
    if key not in known:
        missing = [path for run in runs if not (path := run.path / METRICS).exists()]
        if not known and missing:
            raise UserError(f"There is nothing to draw: '{missing[0]}', which the run records, is missing.")
        similar = closest(key, sorted(known, key=lambda name: (name != RETURN, name)))
        hint = similar or f" They have: {', '.join(sorted(known)) or 'nothing yet'}."
        raise UserError(f"None of these runs has recorded '{key}'.{hint}")


def find_checkpoint(path: str) -> str:
    """Return the file of a checkpoint: `path` itself, or the best checkpoint if `path` is a run's directory."""
    if not os.path.exists(path):
        raise ConfigError(
            f"'{path}' does not exist: expected a run's directory, its ckpt folder or a checkpoint.{closest_path(path)}"
        )
    if not os.path.isdir(path):
        return path
    for folder in ("ckpt", ""):
        best = os.path.join(path, folder, "ckpt_best.pth.tar")
        if os.path.isfile(best):
            return best
    raise ConfigError(
        f"'{path}' holds no ckpt_best.pth.tar: expected a run's directory, its ckpt folder, or a checkpoint file."
    )


def closest_path(path: str) -> str:
    """Return what `closest` does about a path that is not what is needed, and the others in its directory."""
    folder = os.path.dirname(path.rstrip("/"))
    with suppress(OSError):
        paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder or "."))]
        return closest(path, [other for other in paths if other != path])
    return ""


def find_exp_dir(checkpoint: str) -> str:
    """Return the experiment directory of a checkpoint that lies in its ckpt folder."""
    return os.path.dirname(os.path.dirname(os.path.abspath(checkpoint)))

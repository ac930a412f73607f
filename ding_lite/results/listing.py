"""The list of the runs in a directory, and what each of them occupies on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ding_lite.results.run import RETURN, Run, read_run
from ding_lite.results.table import TIED, Table, show_number, show_size
from ding_lite.utils.registry import UserError


def list_runs(directories: Iterable[Path], root: Path) -> Table:
    """Return a table of runs; one that is damaged is listed too, with what is wrong.

    Args:
        directories: the runs' directories.
        root: the names are shown relative to it.
    """
    return Table(
        ["run", "policy", "env", "ended", "best", "env steps", "size"],
        [_cells(path, root) for path in directories],
        frozenset({4, 5, 6}),
        named=True,
    )


def size_of(paths: Iterable[Path]) -> int:
    """Return the bytes of files and of all files below directories; a file with two names counts once."""
    sizes = {(status.st_dev, status.st_ino): status.st_size for path in paths for status in _statuses(path)}
    return sum(sizes.values())


def best_return(run: Run) -> float | None:
    """Return the mean return of a run's best evaluation; None if it has none."""
    best = run.result.get("eval_return_best")
    if isinstance(best, int | float):
        return best
    returns = run.column(RETURN)[1]
    return float(returns.max()) if len(returns) else None


def _cells(path: Path, root: Path) -> list[str]:
    name, size = os.path.relpath(path, root), show_size(size_of([path])).replace(" ", TIED)
    try:
        run = read_run(path)
    except UserError:
        return [name, "-", "-", "config damaged", "-", "-", size]
    try:
        best, steps = best_return(run), run.records[-1]["envstep"] if run.records else 0
    except UserError:
        return [name, run.algorithm, run.env, "metrics damaged", "-", "-", size]
    return [name, run.algorithm, run.env, run.ending, show_number(best), f"{run.result.get('envstep', steps):,}", size]


def _statuses(path: Path) -> Iterator[os.stat_result]:
    files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names] if path.is_dir() else [path]
    for file in files:
        try:
            yield file.lstat()
        except FileNotFoundError:  # an active run renames its files
            continue

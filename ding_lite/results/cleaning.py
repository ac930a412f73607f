"""The list of the runs in a directory, what can be removed from them, and its removal.

* Checkpoints: those before the newest one, and unfinished files. Best, last and newest ones stay, so the run can still
  be evaluated and resumed. Only runs that wrote a result are cleaned: after a kill an older checkpoint may be needed.
* Parts: what the ranks keep with the newest checkpoint, mainly replay buffers. Without them a run cannot be resumed, so
  those of interrupted runs stay.
* Runs: whole directories of runs that ended without a single evaluation. One that contains other files stays.

Nothing is removed from an active run: each directory is locked while something is removed from it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ding_lite.results.run import RETURN, Run, read_run
from ding_lite.results.table import TIED, Table, show_number, show_size
from ding_lite.utils.checkpoint.origin import ORIGIN
from ding_lite.utils.directory_lock import CONFIG, METRICS, RESULT, find_trap_inside, lock_directory, unlock_directory
from ding_lite.utils.registry import UserError

NUMBERED = re.compile(r"iteration_([0-9]+)(?:_([0-9]+))?(\.rank_[0-9]+)?\.pth\.tar")
UNFINISHED = ".pth.tar.tmp"
JSON = {name for whole in (RESULT, "job.json", "tracker.json") for name in (whole, f"{whole}.tmp")}
OF_A_RUN = {CONFIG, METRICS, ORIGIN, *JSON, "ckpt", "log", "nonfinite", "video", "__pycache__"}


@dataclass(frozen=True)
class Removal:
    """Files to remove from a run, or its whole directory.

    `what` describes them.
    """

    run: Run
    paths: tuple[Path, ...]
    what: str

    @property
    def size(self) -> int:
        """Bytes that become free: a file that keeps another name does not count."""
        directory = self.run.path
        if self.paths == (directory,):
            return size_of([directory])
        kept = [file for file in (directory / "ckpt").iterdir() if file not in self.paths]
        return size_of([*self.paths, *kept]) - size_of(kept)


def find_checkpoints(run: Run, parts: bool = False) -> Removal | None:
    """Return the checkpoints, with `parts` also the newest one's parts, that a run does not need; None: all are."""
    folder = run.path / "ckpt"
    if run.active or not run.result or not folder.is_dir() or find_trap_inside(run.path):
        return None
    matches = {file: match for file in sorted(folder.iterdir()) if (match := NUMBERED.fullmatch(file.name))}
    numbers = {file: (int(match[1]), int(match[2] or 1)) for file, match in matches.items()}
    newest = max((numbers[file] for file, match in matches.items() if not match[3]), default=None)
    if newest is None:
        return None
    parts = parts and run.ending != "interrupted"
    old = [file for file, match in matches.items() if numbers[file] < newest or (parts and match[3])]
    old += [file for file in sorted(folder.iterdir()) if file.name.endswith(UNFINISHED)]
    return Removal(run, tuple(old), f"{len(old)} file{'s' * (len(old) > 1)} of checkpoints") if old else None


def find_unevaluated(run: Run) -> Removal | None:
    """Return the directory of a run without an evaluation; None if it is needed, or may be."""
    if run.active or not {file.name for file in run.path.iterdir()} <= OF_A_RUN:
        return None
    try:
        evaluated = len(run.column(RETURN)[0]) > 0
    except UserError:  # what is damaged is for the user to judge
        return None
    return None if evaluated else Removal(run, (run.path,), "the whole run, never evaluated")


def remove(removal: Removal) -> None:
    """Remove files. Meanwhile the directory is locked as by a run, so that none can be resumed in it."""
    directory = removal.run.path
    try:
        lock = lock_directory(directory)
    except BlockingIOError:
        raise UserError(f"'{directory}': the run is active now. Nothing was removed from it.") from None
    try:
        for path in removal.paths:
            if path == directory:
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"Cannot remove '{error.filename}': {error.strerror}.") from None
    finally:
        unlock_directory(lock)


def list_runs(directories: Iterable[Path], root: Path) -> Table:
    """Return a table of runs, named relative to `root`; one that is damaged is listed too, with what is wrong."""
    return Table(
        ["run", "policy", "env", "ended", "best", "env steps", "size"],
        [_cells(path, root) for path in directories],
        frozenset({4, 5, 6}),
        named=True,
    )


def size_of(paths: Iterable[Path]) -> int:
    """Return the bytes of files and of all files below directories; a file with two names counts once."""
    sizes = dict[tuple[int, int], int]()
    for path in paths:
        inside = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
        for file in inside if path.is_dir() else (path,):
            with suppress(FileNotFoundError):  # an active run renames its files
                status = file.lstat()
                sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())


def best_return(run: Run) -> float | None:
    """Return the mean return of a run's best evaluation; None if it has none."""
    best = run.result.get("eval_return_best")
    if isinstance(best, int | float):
        return best
    returns = run.column(RETURN)[1]
    return float(returns.max()) if len(returns) else None


def _cells(path: Path, root: Path) -> list[str]:
    cells = ["-", "-", "config damaged", "-", "-"]
    with suppress(UserError):
        run = read_run(path)
        cells = [run.algorithm, run.env, "metrics damaged", "-", "-"]
        steps = run.result.get("envstep", run.records[-1]["envstep"] if run.records else 0)
        cells[2:] = run.ending, show_number(best_return(run)), f"{steps:,}"
    return [os.path.relpath(path, root), *cells, show_size(size_of([path])).replace(" ", TIED)]

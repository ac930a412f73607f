"""What can be removed from the directories of runs, and its removal.

* Checkpoints: those before the newest one, and unfinished files. Best, last and newest ones stay, so the run can still
  be evaluated and resumed. Only runs that wrote a result are cleaned: after a kill an older checkpoint may be needed.
* Parts: what the ranks keep with the newest checkpoint, mainly replay buffers. Without them a run cannot be resumed, so
  those of interrupted runs stay.
* Runs: whole directories of runs that ended without a single evaluation. One that contains other files stays.

Nothing is removed from an active run: each directory is locked while something is removed from it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ding_lite.results.listing import size_of
from ding_lite.results.run import CONFIG, METRICS, RESULT, RETURN, Run
from ding_lite.utils.directory_lock import lock_directory, unlock_directory
from ding_lite.utils.origin import ORIGIN
from ding_lite.utils.registry import UserError

NUMBERED = re.compile(r"iteration_([0-9]+)(?:_([0-9]+))?(\.rank_[0-9]+)?\.pth\.tar")
UNFINISHED = ".pth.tar.tmp"
JSON = {name for whole in (RESULT, "job.json", "tracker.json") for name in (whole, f"{whole}.tmp")}
OF_A_RUN = {CONFIG, METRICS, ORIGIN, *JSON, "ckpt", "log", "nonfinite", "video", "__pycache__"}


@dataclass(frozen=True)
class Removal:
    """Files to remove from a run, or its whole directory.

    Attributes:
        run: the run.
        paths: the files, or the run's directory.
        what: describes them.
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
    """Return the checkpoints that a run no longer needs; None if there are none.

    Args:
        run: the run.
        parts: also the parts of its newest checkpoint.
    """
    folder = run.path / "ckpt"
    if run.active or not run.result or not folder.is_dir():
        return None
    numbered = {file: match for file in sorted(folder.iterdir()) if (match := NUMBERED.fullmatch(file.name))}
    newest = max(map(_number, (match for match in numbered.values() if not match[3])), default=None)
    if newest is None:
        return None
    parts = parts and run.ending != "interrupted"
    old = [file for file, match in numbered.items() if _number(match) < newest or (parts and match[3])]
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
    """Remove files.

    Raises:
        UserError: the run has been started again, or a file cannot be removed.
    """
    directory = removal.run.path
    with _locked(directory):
        try:
            for path in removal.paths:
                if path == directory:
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"Cannot remove '{error.filename}': {error.strerror}.") from None


def _number(match: re.Match[str]) -> tuple[int, int]:
    return int(match[1]), int(match[2] or 1)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock a directory as a run does, so that none can be resumed in it."""
    try:
        directory = lock_directory(path)
    except BlockingIOError:
        raise UserError(f"'{path}': the run is active now. Nothing was removed from it.") from None
    try:
        yield
    finally:
        unlock_directory(directory)

"""A directory of checkpoints. All ranks commit each checkpoint together, completely or not at all.

iteration_N.rank_R.pth.tar    a part: local state of rank R
iteration_N.pth.tar           global state, of rank 0, with the checksum of each part
ckpt_last.pth.tar             another name of the newest global file (a copy where there are no hard links)
ckpt_best.pth.tar             a global state alone

Rank 0 writes the global file when all parts are on disk. Renaming it to its final name commits the checkpoint. If parts
hold replay buffers, only the newest checkpoint keeps them. If its name exists already, a checkpoint is called
`iteration_N_2`, then `iteration_N_3`; the numbers give the order.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ding_lite.utils.checkpoint.file import CheckpointError, read_checkpoint, save_checkpoint
from ding_lite.utils.ranks.collectives import all_gather_object, get_rank, get_world_size, on_every_rank, on_rank_0

FILE = re.compile(
    r"((?P<name>iteration_[0-9]+(_[0-9]+)?)(\.rank_(?P<part>[0-9]+))?|ckpt_last|ckpt_best)\.pth\.tar(?P<unfinished>\.tmp)?"
)
# Returns which parts this rank needs of a checkpoint that is dealt anew, given their number and those that are lost.
Needs = Callable[[int, Collection[int]], Iterable[int]]


class Loaded(NamedTuple):
    """What was read from a checkpoint.

    `local_state` is this rank's. If more or fewer ranks saved the checkpoint than there are now, or parts are `lost`,
    it is None, and `of_ranks` has those parts that this rank needs, in the order of ranks; None for the others. Tensors
    of files that this rank sees are views of them, so they need no second copy in memory. `skipped` has one line for
    each newer checkpoint that was not used, with the reason; the same on every rank.
    """

    name: str
    state: dict[str, Any]
    local_state: dict[str, Any] | None
    skipped: list[str]
    of_ranks: list[dict[str, Any] | None] = []
    lost: list[int] = []


class LostPartsError(CheckpointError):
    """Some ranks' parts of a checkpoint are missing or damaged wherever a rank looks."""


class CheckpointStore:
    """Keeps the newest checkpoints of a run, however the run ends.

    The constructor and every method are collective: all ranks return the same or raise the same error. Ranks need not
    see each other's files. Opening a store and loading from it remove nothing; the first save removes what a killed one
    has left. Files that are older than the newest checkpoint and belong to none stay: another run may have left them.

    The `keep` newest checkpoints stay; 0: all. The directory is created when something is saved; `CheckpointError` says
    that it exists and cannot be listed.
    """

    def __init__(self, directory: str, keep: int) -> None:
        self._directory, self._keep = directory, keep
        found = on_rank_0(self._list)
        names = {match["name"] for match in found if match["name"] and not match["part"] and not match["unfinished"]}
        self._names = sorted(names, key=_order)
        self._abandoned: list[str] = []  # newer than the one that the run continued from
        on_every_rank(self._look_around)
        self._name_last()

    def save(
        self, train_iter: int, state: dict[str, Any], local_state: dict[str, Any] | None, keep_parts: bool = True
    ) -> str | None:
        """Save a checkpoint of all ranks. Then remove the ones before the newest `keep`, and those not continued from.

        The global `state` is what `save_checkpoint` takes; only rank 0's is written. Without `keep_parts`, older
        checkpoints lose their parts, so a run that has to continue from one has no local states.

        Returns:
            None, or one line that says why nothing was saved; earlier checkpoints are then unchanged.
        """
        name, number = f"iteration_{train_iter}", 1
        while name in (*self._names, *self._abandoned):
            number += 1
            name = f"iteration_{train_iter}_{number}"
        part = self._path(name, get_rank())
        while self._unfinished:
            _unlink(self._unfinished.pop())
        try:
            parts = on_every_rank(lambda: None if local_state is None else save_checkpoint(part, local_state))
            on_rank_0(lambda: save_checkpoint(self._path(name), state, {"name": name, "parts": parts}))
        except CheckpointError as error:
            self._remove([name])
            return str(error)
        self._names.append(name)
        self._remove(self._abandoned)
        self._abandoned = []
        self._remove(self._names[: -self._keep])  # none if `keep` is 0
        self._names = self._names[-self._keep :]
        for old in () if keep_parts else self._names[:-1]:
            self._remove_parts(old)
        self._name_last()
        return None

    def save_best(self, state: dict[str, Any]) -> str | None:
        """Save rank 0's `state` as `ckpt_best`, which stays until the next best one; return as `save` does."""
        try:
            on_rank_0(lambda: save_checkpoint(self._path("ckpt_best"), state, {"name": "ckpt_best", "parts": []}))
        except CheckpointError as error:
            return str(error)
        return None

    def fix_directory(self) -> None:
        """Keep to the same directory from now on, even if the process changes its current one."""
        self._directory = os.path.abspath(self._directory)

    def has_checkpoints(self) -> bool:
        """Return whether there are checkpoints, valid or not."""
        return bool(self._names)

    def load_newest(self, allow_lost: bool = False, needs: Needs = lambda parts, lost: range(parts)) -> Loaded:
        """Read the newest checkpoint whose global file can be read; for the arguments see `load_file`.

        Raises:
            CheckpointError: There is none, or parts of it are lost.
        """
        skipped: list[str] = []
        for name in self._names[::-1]:
            try:
                loaded = load_file(self._path(name), name, name == self._names[-1], allow_lost, needs)
            except LostPartsError:
                raise
            except CheckpointError as error:
                skipped.append(str(error))
            else:
                count = len(self._names) - len(skipped)
                self._names, self._abandoned = self._names[:count], self._names[count:]
                return loaded._replace(skipped=skipped)
        reasons = " ".join(skipped) or "there is none."
        raise CheckpointError(f"No checkpoint in '{self._directory}' can be loaded: {reasons}")

    def _path(self, name: str, rank: int | None = None) -> str:
        part = "" if rank is None else f".rank_{rank}"
        return os.path.join(self._directory, f"{name}{part}.pth.tar")

    def _list(self) -> list[dict[str, str | None]]:
        """Return this store's files that this rank sees, as the groups of `FILE` and the key "file"."""
        try:
            files = os.listdir(self._directory)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError(f"Cannot list '{self._directory}': {error.strerror}.") from error
        return [{**match.groupdict(), "file": match[0]} for match in map(FILE.fullmatch, files) if match]

    def _look_around(self) -> None:
        """Find out which files that this rank sees a killed save has left, and how many ranks' parts there may be."""
        found, newest = self._list(), _order(self._names[-1]) if self._names else []
        self._unfinished = [
            os.path.join(self._directory, str(match["file"]))
            for match in found
            if match["unfinished"] or (match["part"] and _order(str(match["name"])) > newest)
        ]
        self._most_parts = max((int(match["part"] or 0) + 1 for match in found), default=0)

    def _remove(self, names: list[str]) -> None:
        for name in names:
            self._remove_parts(name)
        if names:
            all_gather_object(None)  # a kill must not leave parts without their global file: nobody would remove them
        for name in names if get_rank() == 0 else ():
            _unlink(self._path(name))

    def _remove_parts(self, name: str) -> None:
        """Remove this rank's part of a checkpoint, and those of more ranks that saved it than there are now."""
        for rank in range(get_rank(), max(self._most_parts, get_world_size()), get_world_size()):
            _unlink(self._path(name, rank))

    def _name_last(self) -> None:
        """On rank 0, make `ckpt_last` a name of the newest checkpoint; opening the store repairs a failure."""
        if get_rank() != 0 or not self._names:
            return
        newest, last = self._path(self._names[-1]), self._path("ckpt_last")
        with suppress(OSError):  # the directory may be read-only
            if os.path.exists(last) and os.path.samefile(newest, last):
                return
            _unlink(f"{last}.tmp")
            try:
                os.link(newest, f"{last}.tmp")
            except OSError:  # the file system has no hard links
                shutil.copyfile(newest, f"{last}.tmp")
            os.replace(f"{last}.tmp", last)


def load_file(
    path: str,
    name: str | None = None,
    is_newest: bool = False,
    allow_lost: bool = False,
    needs: Needs = lambda parts, lost: range(parts),
) -> Loaded:
    """Read a global file, and the ranks' parts in the same directory, collectively.

    A rank reads its own part, if as many ranks saved the checkpoint and no part is lost; else those that it `needs`. It
    gets those that it cannot read from a rank that can.

    Args:
        path: the global file.
        name: the name under which it must have been saved; None: any.
        is_newest: whether it must have parts; other checkpoints may have lost all of them.
        allow_lost: whether parts, even all, may be missing or damaged.
        needs: see `Needs`.

    Raises:
        LostPartsError: no rank can read one of the parts.
        CheckpointError: the global file cannot be read.
    """
    state, name_found, checksums = on_rank_0(lambda: _read_global(path, name))
    files = {
        rank: (os.path.join(os.path.dirname(path), f"{name_found}.rank_{rank}.pth.tar"), checksum)
        for rank, checksum in enumerate(checksums)
        if checksum
    }
    held, lost = _read_parts(files, len(checksums), needs)
    were_removed = len(lost) == len(files) and not any(damaged for damaged, _ in lost.values())
    if lost and not allow_lost and (is_newest or not were_removed):
        ranks = ", ".join(map(str, sorted(lost)))
        raise LostPartsError(
            f"{lost[min(lost)][1]} The part of rank {ranks} of {len(checksums)} is lost: bring it back, or let its "
            "environments begin anew, without its replay: ding_lite resume DIR --allow-lost-replay."
        )
    if len(lost) == len(files):
        return Loaded(name_found, state, None, [])
    if len(checksums) == get_world_size() and not lost:
        return Loaded(name_found, state, held[get_rank()], [])
    return Loaded(name_found, state, None, [], [held.get(rank) for rank in range(len(checksums))], sorted(lost))


Lost = dict[int, tuple[bool, str]]  # the parts that no rank can read: whether a rank sees the file, and an error


def _read_parts(
    files: Mapping[int, tuple[str, str]], num_parts: int, needs: Needs
) -> tuple[dict[int, dict[str, Any]], Lost]:
    """Return the parts that this rank needs, and those that are lost; `files` are paths and checksums of all parts."""
    held: dict[int, dict[str, Any]] = {}
    lost: Lost = {}
    while True:
        is_whole = num_parts == get_world_size() and not lost
        wanted = [get_rank()] if is_whole else needs(num_parts, lost.keys())
        wanted = [part for part in wanted if part in files and part not in lost]
        held = {part: held[part] for part in wanted if part in held}  # others are needed no more
        read, failed = _try_to_read(files, [part for part in wanted if part not in held])
        held |= read
        failed_R = all_gather_object(failed)
        failures: Lost = {}
        for each in failed_R:
            failures |= {part: failure for part, failure in each.items() if failure > failures.get(part, (False, ""))}
        if not failures:
            return held, lost
        # Machines need not share files: another rank may have what this one has not.
        spare = {part: held[part] for part in failures if part in held}
        spare |= _try_to_read(files, [part for part in failures if part not in spare and part not in failed])[0]
        able_R = all_gather_object(list(spare))
        senders = {part: rank for rank, able in reversed(list(enumerate(able_R))) for part in able}
        for sent in all_gather_object({part: spare[part] for part in spare if senders[part] == get_rank()}):
            held |= {part: state for part, state in sent.items() if part in wanted}
        lost |= {part: failure for part, failure in failures.items() if part not in senders}


def _try_to_read(files: Mapping[int, tuple[str, str]], parts: Iterable[int]) -> tuple[dict[int, dict[str, Any]], Lost]:
    """Return those of the parts that this rank can read, and those that it cannot."""
    held: dict[int, dict[str, Any]] = {}
    failed: Lost = {}
    for part in parts:
        try:
            held[part] = read_checkpoint(*files[part], mmap=True)[0]
        except CheckpointError as error:
            failed[part] = os.path.lexists(files[part][0]), str(error)
    return held, failed


def _read_global(path: str, expected: str | None) -> tuple[dict[str, Any], str, list[Any]]:
    """Return the state, the name and the parts' checksums of a global file; `expected` is a name that it must have."""
    state, record = read_checkpoint(path)
    if expected is None and record == {}:  # a file of save_checkpoint holds a state alone
        return state, os.path.basename(path).removesuffix(".pth.tar"), []
    name, parts = record.get("name"), record.get("parts", "missing")
    fits = isinstance(parts, list) and all(isinstance(part, str | None) for part in parts)
    if not isinstance(name, str) or not re.fullmatch(r"\w+", name) or not fits:
        raise CheckpointError(f"Cannot read checkpoint '{path}': it does not say which parts belong to it.")
    if expected not in (None, name):
        raise CheckpointError(f"Cannot read checkpoint '{path}': it was saved as '{name}' and renamed.")
    return state, name, parts


def _order(name: str) -> list[int]:
    """Return what sorts the names of checkpoints by age."""
    return [int(number) for number in re.findall("[0-9]+", name)]


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)

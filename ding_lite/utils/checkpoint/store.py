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

import itertools
import os
import re
import shutil
from contextlib import suppress
from typing import Any, NamedTuple

from ding_lite.utils.checkpoint.file import CheckpointError, read_checkpoint, save_checkpoint
from ding_lite.utils.ranks.collectives import all_gather_object, get_rank, get_world_size, on_every_rank, on_rank_0

FILE = re.compile(
    r"((?P<name>iteration_[0-9]+(_[0-9]+)?)(?P<part>\.rank_[0-9]+)?|ckpt_last|ckpt_best)\.pth\.tar(?P<unfinished>\.tmp)?"
)


class Loaded(NamedTuple):
    """What was read from a checkpoint.

    `local_state` is this rank's. If more or fewer ranks saved the checkpoint than there are now, it is None, and
    `of_ranks` has those of all of them; None for a part that is lost. Tensors of files that this rank sees are views of
    them, so they need no second copy in memory.
    `skipped` has one line for each newer checkpoint that was not used, with the reason; the same on every rank.
    """

    name: str
    state: dict[str, Any]
    local_state: dict[str, Any] | None
    skipped: list[str]
    of_ranks: list[dict[str, Any] | None] = []


class LostPartsError(CheckpointError):
    """Some ranks' parts of a checkpoint are nowhere."""


class CheckpointStore:
    """Keeps the newest checkpoints of a run, however the run ends.

    The constructor and every method are collective: all ranks return the same or raise the same error. Ranks need not
    see each other's files. Opening a store removes what a killed run did not finish.

    Args:
        directory: Created when something is saved.
        keep: How many of the newest checkpoints stay; 0: all.

    Raises:
        CheckpointError: The directory exists and cannot be listed.
    """

    def __init__(self, directory: str, keep: int) -> None:
        self._directory, self._keep = directory, keep
        found = on_rank_0(self._list)
        names = {match["name"] for match in found if match["name"] and not match["part"] and not match["unfinished"]}
        self._names = sorted(names, key=lambda name: [int(number) for number in re.findall("[0-9]+", name)])
        self._abandoned: list[str] = []  # newer than the one that the run continued from
        if found:  # else rank 0's disk may be missing, and the other ranks' files may be needed again
            on_every_rank(self._remove_unfinished)
        self._name_last()

    def save(
        self, train_iter: int, state: dict[str, Any], local_state: dict[str, Any] | None, keep_parts: bool = True
    ) -> str | None:
        """Save a checkpoint of all ranks. Then remove the ones before the newest `keep`, and those not continued from.

        Args:
            train_iter: In learner iterations; names the checkpoint.
            state: Global state, what `save_checkpoint` takes; only rank 0's is written.
            local_state: This rank's.
            keep_parts: Whether older checkpoints keep their parts. Without them, a run that has to continue from an
                older one has no local states.

        Returns:
            None, or one line that says why nothing was saved; earlier checkpoints are then unchanged.
        """
        name, number = f"iteration_{train_iter}", 1
        while name in (*self._names, *self._abandoned):
            number += 1
            name = f"iteration_{train_iter}_{number}"
        part = self._path(name, get_rank())
        try:
            parts = on_every_rank(lambda: None if local_state is None else save_checkpoint(part, local_state))
            on_rank_0(lambda: save_checkpoint(self._path(name), state, {"name": name, "parts": parts}))
        except CheckpointError as error:
            self._remove([name])
            return str(error)
        self._names.append(name)
        self._remove(self._abandoned)
        self._abandoned = []
        self._remove_old()
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

    def load_newest(self, allow_lost: bool = False) -> Loaded:
        """Read the newest checkpoint that every rank can read; `allow_lost`: see `load_file`.

        Raises:
            CheckpointError: There is none, or parts of it are lost.
        """
        skipped: list[str] = []
        for name in self._names[::-1]:
            try:
                loaded = load_file(self._path(name), name, name == self._names[-1], allow_lost)
            except LostPartsError:
                raise
            except CheckpointError as error:
                skipped.append(str(error))
            else:
                count = len(self._names) - len(skipped)
                self._names, self._abandoned = self._names[:count], self._names[count:]
                self._remove_old()
                return loaded._replace(skipped=skipped)
        reasons = " ".join(skipped) or "there is none."
        raise CheckpointError(f"No checkpoint in '{self._directory}' can be loaded: {reasons}")

    def _path(self, name: str, rank: int | None = None) -> str:
        return _path(self._directory, name, rank)

    def _list(self) -> list[dict[str, str | None]]:
        """Return this store's files that this rank sees, as the groups of `FILE` and the key "file"."""
        try:
            files = os.listdir(self._directory)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError(f"Cannot list '{self._directory}': {error.strerror}.") from error
        return [{**match.groupdict(), "file": match[0]} for match in map(FILE.fullmatch, files) if match]

    def _remove_unfinished(self) -> None:
        """Remove temporary files and the parts that have no global file."""
        for match in self._list():
            if match["unfinished"] or (match["part"] and match["name"] not in self._names):
                _unlink(os.path.join(self._directory, str(match["file"])))

    def _remove_old(self) -> None:
        """Remove all but the newest `keep` checkpoints."""
        self._remove(self._names[: -self._keep])  # none if `keep` is 0
        self._names = self._names[-self._keep :]

    def _remove(self, names: list[str]) -> None:
        for name in names:
            if get_rank() == 0:
                _unlink(self._path(name))
            self._remove_parts(name)

    def _remove_parts(self, name: str) -> None:
        """Remove this rank's part of a checkpoint, and those of more ranks that saved it than there are now."""
        for rank in itertools.count(get_rank(), get_world_size()):
            path = self._path(name, rank)
            if not os.path.lexists(path):
                return
            _unlink(path)

    def _name_last(self) -> None:
        """On rank 0, make `ckpt_last` a name of the newest checkpoint; opening the store repairs a failure."""
        if get_rank() != 0 or not self._names:
            return
        newest, last = self._path(self._names[-1]), self._path("ckpt_last")
        with suppress(OSError):  # the directory may be read-only
            if not (os.path.exists(last) and os.path.samefile(newest, last)):
                _link(newest, f"{last}.tmp")
                os.replace(f"{last}.tmp", last)


def load_file(path: str, name: str | None = None, is_newest: bool = False, allow_lost: bool = False) -> Loaded:
    """Read a global file, and the ranks' parts in the same directory, collectively.

    A rank gets its own part, if as many ranks saved the checkpoint and each finds its own. Else it gets those of all,
    and ranks that do not find a part get it from one that does.

    Args:
        path: the global file.
        name: the name under which it must have been saved; None: any.
        is_newest: whether it must have parts; other checkpoints may have lost all of them.
        allow_lost: whether parts that no rank finds, even all, may be missing.

    Raises:
        LostPartsError: no rank finds one of the parts.
        CheckpointError: it cannot be read, or a part is damaged.
    """
    state, name_found, parts = on_rank_0(lambda: _read_global(path, name))
    paths = {rank: _path(os.path.dirname(path), name_found, rank) for rank, each in enumerate(parts) if each}
    seen_R = on_every_rank(lambda: [rank for rank in paths if os.path.exists(paths[rank])])
    seen = {rank for own in seen_R for rank in own}
    if not seen:
        if paths and is_newest and not allow_lost:
            raise CheckpointError(
                f"Cannot read checkpoint '{paths[0]}': it is missing, as after `ding_lite clean --parts`. The run can "
                "be evaluated, but not resumed; a new run may begin with its model: "
                "policy.learn.learner.hook.load_ckpt_before_run."
            )
        return Loaded(name_found, state, None, [])
    lost = [str(rank) for rank in paths if rank not in seen]
    if lost and not allow_lost:
        raise LostPartsError(
            f"Checkpoint '{path}': the part of rank {', '.join(lost)} of {len(parts)} is missing. Bring it back, or "
            "let its environments begin anew: ding_lite resume DIR --allow-lost-replay."
        )
    is_whole = len(parts) == get_world_size() and all(rank in own for rank, own in enumerate(seen_R))
    held: dict[int, dict[str, Any]] = {}

    def read() -> None:
        for rank in [get_rank()] if is_whole else seen_R[get_rank()]:
            held[rank] = read_checkpoint(paths[rank], parts[rank], mmap=True)[0]

    on_every_rank(read)
    if is_whole:
        return Loaded(name_found, state, held[get_rank()], [])
    held |= _exchange(held, seen_R)
    if len(parts) == get_world_size() and not lost:
        return Loaded(name_found, state, held[get_rank()], [])
    return Loaded(name_found, state, None, [], [held.get(rank) for rank in range(len(parts))])


def _exchange(held: dict[int, dict[str, Any]], seen_R: list[list[int]]) -> dict[int, dict[str, Any]]:
    """Return the parts that not every rank has read; each is sent by the first rank that has."""
    senders = {part: rank for rank, own in reversed(list(enumerate(seen_R))) for part in own}
    rare = {part: rank for part, rank in senders.items() if not all(part in own for own in seen_R)}
    if not rare:
        return {}
    sent = all_gather_object({part: held[part] for part, rank in rare.items() if rank == get_rank()})
    return {part: state for parts in sent for part, state in parts.items()}


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


def _path(directory: str, name: str, rank: int | None = None) -> str:
    return os.path.join(directory, f"{name}.pth.tar" if rank is None else f"{name}.rank_{rank}.pth.tar")


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _link(path: str, name: str) -> None:
    """Give a file a second name: a hard link, or a copy if the file system has no hard links."""
    _unlink(name)
    try:
        os.link(path, name)
    except OSError:
        shutil.copyfile(path, name)

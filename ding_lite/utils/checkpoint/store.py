"""A directory of checkpoints. All ranks commit each checkpoint together, completely or not at all.

iteration_N.pth.tar           global state, of rank 0; its record names the world size and the checksum of each part
iteration_N.rank_R.pth.tar    a part: local state of rank R
manifest.json                 the checkpoints that count, oldest first; renaming it commits a checkpoint
ckpt_last.pth.tar             another name of the newest global file (a copy where there are no hard links)
ckpt_best.pth.tar             a global state alone, not in the manifest
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from ding_lite.utils.checkpoint.file import CheckpointError, atomic_file, read_checkpoint, save_checkpoint
from ding_lite.utils.dist.collectives import all_gather_object, broadcast_object_list
from ding_lite.utils.dist.ranks import get_rank, get_world_size

FORMAT = "ding_lite checkpoints"
VERSION = 1  # of the manifest
NAME = re.compile(r"iteration_([0-9]+)(?:_([0-9]+))?")
FILE = re.compile(
    rf"((?P<name>{NAME.pattern})(\.rank_(?P<rank>[0-9]+))?|ckpt_last|ckpt_best)\.pth\.tar(?P<temporary>\.tmp)?"
)

Value = TypeVar("Value")


class Loaded(NamedTuple):
    """What was read from a checkpoint.

    `local_state` is this rank's; its tensors are views of the file, so they need no second copy in memory. `skipped`
    has one line for each newer checkpoint that was not used, with the reason; the same on every rank.
    """

    name: str
    state: dict[str, Any]
    local_state: dict[str, Any] | None
    skipped: list[str]


class OtherWorldSizeError(CheckpointError):
    """A checkpoint of a different number of ranks."""


class CheckpointStore:
    """Keeps the newest checkpoints of a run, however the run ends.

    The constructor and every method are collective: all ranks return the same or raise the same error. Ranks need not
    see each other's files. Opening a store removes unfinished files of a killed run.

    Args:
        directory: Created when something is saved.
        keep: How many of the newest checkpoints stay; 0: all.

    Raises:
        CheckpointError: The directory exists and cannot be listed.
    """

    def __init__(self, directory: str, keep: int) -> None:
        self._directory, self._keep = directory, keep
        self._entries: list[dict[str, Any]] = []  # rank 0: the manifest's, oldest first
        self._notes: list[str] = []  # rank 0: what was wrong with the manifest
        self._abandoned = set[str]()  # newer than the checkpoint that the run went on from
        names = _on_rank_0(self._open)
        if names is not None:
            self._remove_orphans(names)

    def save(
        self, name: str, state: dict[str, Any], local_state: dict[str, Any] | None, train_iter: int, envstep: int
    ) -> str | None:
        """Save a checkpoint of all ranks; then remove those older than the newest `keep`.

        Args:
            name: `iteration_N`; `_2` is appended if there is one of this name.
            state: Global state, what `save_checkpoint` takes; only rank 0's is written.
            local_state: This rank's.
            train_iter: In learner iterations.
            envstep: In env steps.

        Returns:
            None, or one line that says why nothing was saved; earlier checkpoints are unchanged then.
        """
        if not NAME.fullmatch(name):
            raise ValueError(f"CheckpointStore.save: expected a name such as 'iteration_100', got {name!r}.")
        name = _on_rank_0(lambda: self._unused(name))
        record = {"name": name, "train_iter": train_iter, "envstep": envstep, "world_size": get_world_size()}
        try:
            parts = _on_every_rank(lambda: self._save_part(name, local_state))
            old = _on_rank_0(lambda: self._commit(state, {**record, "parts": parts}))
        except CheckpointError as error:
            self._remove(name)
            return str(error)
        self._abandoned.clear()
        for old_name in old:
            self._remove(old_name)
        return None

    def save_best(self, state: dict[str, Any], train_iter: int, envstep: int) -> str | None:
        """Save rank 0's `state` as `ckpt_best`, which stays until the next best one; return as `save` does."""
        record = {"name": "ckpt_best", "train_iter": train_iter, "envstep": envstep, "world_size": get_world_size()}
        try:
            _on_rank_0(lambda: save_checkpoint(self._path("ckpt_best"), state, {**record, "parts": []}))
        except CheckpointError as error:
            return str(error)
        return None

    def has_checkpoints(self) -> bool:
        """Return whether there are checkpoints, valid or not."""
        return _on_rank_0(lambda: bool(self._entries or self._notes))

    def load_newest(self) -> Loaded:
        """Read the newest checkpoint that every rank can read.

        Raises:
            CheckpointError: There is none, or it is of another world size.
        """
        skipped, entries = _on_rank_0(lambda: (self._notes, self._entries[::-1]))
        skipped, passed = list(skipped), set[str]()
        for entry in entries:
            path = self._path(entry["name"])
            try:
                loaded = _load(path, entry["name"], entry["checksum"])
            except OtherWorldSizeError:
                raise
            except CheckpointError as error:
                skipped.append(str(error))
                passed.add(entry["name"])
            else:
                self._abandoned = passed
                return loaded._replace(skipped=skipped)
        reasons = " ".join(skipped) or "there is none."
        raise CheckpointError(f"No checkpoint in '{self._directory}' can be loaded: {reasons}")

    def _path(self, name: str, rank: int | None = None) -> str:
        return _path(self._directory, name, rank)

    def _unused(self, name: str) -> str:
        taken = {entry["name"] for entry in self._entries}
        names = (f"{name}_{number}" if number > 1 else name for number in range(1, len(taken) + 2))
        return next(new for new in names if new not in taken)

    def _save_part(self, name: str, local_state: dict[str, Any] | None) -> str | None:
        return None if local_state is None else save_checkpoint(self._path(name, get_rank()), local_state)

    def _commit(self, state: dict[str, Any], record: dict[str, Any]) -> list[str]:
        """On rank 0, write the global file and the manifest; return the names of checkpoints that it does not list."""
        entry = {**record, "checksum": save_checkpoint(self._path(record["name"]), state, record)}
        entries = [old for old in self._entries if old["name"] not in self._abandoned] + [entry]
        entries = entries[-self._keep :] if self._keep else entries
        self._write_manifest(entries)
        kept = {entry["name"] for entry in entries}
        old = [entry["name"] for entry in self._entries if entry["name"] not in kept]
        self._entries, self._notes = entries, []
        self._name_last()
        return old

    def _remove(self, name: str) -> None:
        """Remove what this rank owns of a checkpoint."""
        _unlink(self._path(name, get_rank()))
        if get_rank() == 0:
            _unlink(self._path(name))

    # The manifest, rank 0's.

    def _manifest(self) -> str:
        return os.path.join(self._directory, "manifest.json")

    def _write_manifest(self, entries: list[dict[str, Any]]) -> None:
        content = {"format": FORMAT, "version": VERSION, "checkpoints": entries}
        with atomic_file(self._manifest()) as file:
            file.write(json.dumps({**content, "checksum": _digest(content)}, indent=2).encode() + b"\n")

    def _read_manifest(self) -> list[dict[str, Any]]:
        """Raises: CheckpointError saying what is wrong with it."""
        try:
            with open(self._manifest(), "rb") as file:
                content = json.load(file)
            if content.pop("checksum") != _digest(content):
                raise ValueError("its checksum is wrong")
            if (content["format"], content["version"]) != (FORMAT, VERSION):
                raise ValueError(f"expected '{FORMAT}' version {VERSION}")
            if not isinstance(content["checkpoints"], list):
                raise TypeError("'checkpoints' is not a list")
            for entry in content["checkpoints"]:
                if not NAME.fullmatch(entry["name"]) or not isinstance(entry["checksum"], str | None):
                    raise ValueError(f"entry {entry['name']!r} is not one")
        except OSError as error:
            raise CheckpointError(error.strerror) from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"damaged, {_one_line(error)}") from error
        return content["checkpoints"]

    def _open(self) -> set[str] | None:
        """Read the directory on rank 0; return the names of the checkpoints, None if there is no directory."""
        try:
            files = os.listdir(self._directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointError(f"Cannot list '{self._directory}': {error.strerror}.") from error
        try:
            self._entries = self._read_manifest()
        except CheckpointError as error:
            matches = [FILE.fullmatch(file) for file in files]
            found = [m["name"] for m in matches if m and m["name"] and not m["rank"] and not m["temporary"]]
            found.sort(key=lambda name: [int(number or 1) for number in NAME.fullmatch(name).groups()])  # type: ignore[union-attr]
            self._entries = [{"name": name, "checksum": None} for name in found]  # each is verified by itself
            if found or os.path.basename(self._manifest()) in files:
                cause = f"Cannot read '{self._manifest()}': {error}; looking through the directory instead."
                self._notes = [cause]
        else:
            self._name_last()
        _unlink(f"{self._manifest()}.tmp")
        return {entry["name"] for entry in self._entries}

    def _name_last(self) -> None:
        """Make `ckpt_last` a name of the newest checkpoint. If that fails, the next opening of the store mends it."""
        newest, last = self._path(self._entries[-1]["name"]) if self._entries else "", self._path("ckpt_last")
        with suppress(OSError):  # the directory may be one that is only read
            if newest and not (os.path.exists(last) and os.path.samefile(newest, last)):
                _link(newest, f"{last}.tmp")
                os.replace(f"{last}.tmp", last)

    def _remove_orphans(self, names: set[str]) -> None:
        """Remove this rank's files that belong to none of these checkpoints, and unfinished files."""
        files = os.listdir(self._directory) if os.path.isdir(self._directory) else []
        for match in filter(None, map(FILE.fullmatch, files)):
            rank = int(match["rank"] or 0)
            mine = get_rank() == (rank if rank < get_world_size() else 0)
            if mine and (match["temporary"] or (match["name"] and match["name"] not in names)):
                _unlink(os.path.join(self._directory, match[0]))


def load_file(path: str) -> Loaded:
    """Read a global file, whatever its present name, and the ranks' parts in the same directory, collectively.

    If no rank finds a part, `local_state` is None.

    Raises:
        CheckpointError: It cannot be read, or a part is missing or damaged, or it is of another world size.
    """
    return _load(path)


def _load(path: str, name: str | None = None, checksum: str | None = None) -> Loaded:
    """Read a checkpoint, collectively. With a name it must be that one, with all parts; else parts may be missing."""
    state: list[dict[str, Any]] = []

    def read_global() -> dict[str, Any]:
        found, record = read_checkpoint(path, checksum)
        _check_record(path, record, name)
        state.append(found)
        return record

    record = _on_rank_0(read_global)
    parts, size = record.get("parts", []), get_world_size()
    if parts and len(parts) != size:
        raise OtherWorldSizeError(
            f"Checkpoint '{path}' was saved by {len(parts)} rank(s), this run has {size}: start with {len(parts)} to "
            "go on from it, or begin a new run from its model with policy.learn.learner.hook.load_ckpt_before_run."
        )
    own_path = _path(os.path.dirname(path), record.get("name", ""), get_rank())
    own = parts[get_rank()] if parts else None
    if name is None and not any(_on_every_rank(lambda: os.path.exists(own_path))):
        own = None
    local: list[dict[str, Any]] = []
    _on_every_rank(lambda: local.append(read_checkpoint(own_path, own, mmap=True)[0]) if own else None)
    state = state or [{}]
    broadcast_object_list(state)
    fallback = os.path.basename(path).removesuffix(".pth.tar")
    return Loaded(record.get("name", fallback), state[0], local[0] if local else None, [])


def _check_record(path: str, record: Any, name: str | None) -> None:
    """Raise CheckpointError if a global file was not written by a store, or, where one is expected, under this name."""
    if name is None and record == {}:
        return  # of save_checkpoint: a state alone
    parts = record.get("parts") if isinstance(record, dict) else None
    fits = isinstance(parts, list) and all(isinstance(part, str | None) for part in parts)
    if not fits or not isinstance(record["name"], str) or not re.fullmatch(r"\w+", record["name"]):
        raise CheckpointError(f"Cannot read checkpoint '{path}': it does not say which parts belong to it.")
    if name not in (None, record["name"]):
        raise CheckpointError(f"Cannot read checkpoint '{path}': it was saved as '{record['name']}' and renamed.")


def _path(directory: str, name: str, rank: int | None = None) -> str:
    return os.path.join(directory, f"{name}.pth.tar" if rank is None else f"{name}.rank_{rank}.pth.tar")


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


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


def _on_rank_0(function: Callable[[], Value]) -> Value:
    """Call on rank 0 and return its value on every rank.

    Raises:
        CheckpointError: It raised something there; one line, the same on every rank.
    """
    outcome: list[Any] = [None, None]
    if get_rank() == 0:
        outcome = _attempt(function)
    broadcast_object_list(outcome)
    if outcome[1]:
        raise CheckpointError(outcome[1])
    return outcome[0]


def _on_every_rank(function: Callable[[], Value]) -> list[Value]:
    """Call on every rank and return all values, in the order of ranks.

    Raises:
        CheckpointError: It raised something on a rank; one line, the same on every rank.
    """
    outcomes = all_gather_object(_attempt(function))
    for rank, (_, reason) in enumerate(outcomes):
        if reason:
            raise CheckpointError(f"[rank {rank}] {reason}" if get_world_size() > 1 else reason)
    return [value for value, _ in outcomes]


def _attempt(function: Callable[[], Any]) -> list[Any]:
    """Return `[value, None]` or `[None, the exception]`: the other ranks wait for an answer in any case."""
    try:
        return [function(), None]
    except Exception as error:
        return [None, _one_line(error)]


def _one_line(error: Exception) -> str:
    if isinstance(error, CheckpointError):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())

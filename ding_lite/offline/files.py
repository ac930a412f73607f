"""Reads and writes the files of data sets in every supported format.

A file is a mapping from names, `obs` or nested `obs/camera`, to arrays `[R, ...]` of R rows, one for each env step.
The rows of a trajectory are adjacent and in order. Written actions are those of the environment, in its own units.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import socket
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ding_lite.utils.checkpoint.file import atomic_file
from ding_lite.utils.disk import describe_os_error
from ding_lite.utils.registry import ConfigError, closest, load_extra
from ding_lite.utils.tree import dotted_items, tree_leaves, tree_map

KINDS = ("hdf5", "npz", "npy", "minari")
ENDINGS = {".hdf5": "hdf5", ".h5": "hdf5", ".npz": "npz"}
PICKLES = (".pkl", ".pickle", ".pth", ".pt")
MINARI_ID = re.compile(r"-v\d+$")
ATTRIBUTES = "attributes"  # name under which .npz files and directories keep HDF5's attributes
UNITS = "action_units"  # attribute of a data set
PADDING = "padding"  # column that is True in rows that hold an observation, but no step
UNFINISHED = "unfinished"  # column that is True in the rows of a trajectory that the end of the recording has cut


class DatasetError(ConfigError):
    """A data set cannot be used. The message names the file and the key, and what was expected and found."""


class Columns(NamedTuple):
    """An open data set."""

    names: list[str]  # names of the columns
    read: Callable[[str], np.ndarray]  # returns the column of a name
    action_units: str  # the attribute of this name: 'env' or 'policy', the units of the actions; empty if it is missing


def find_kind(path: str, data_type: str = "") -> str:
    """Return the kind of a data set, one of `KINDS`, from `data_type` or else from the path."""
    if not path:
        raise DatasetError("policy.collect.data_path is empty: expected the file or directory of a data set.")
    ending = os.path.splitext(path)[1].lower()
    if data_type == "naive" and ending in ENDINGS:  # a pickle that was converted
        data_type = ""
    if data_type == "naive" or (not data_type and ending in PICKLES):
        raise DatasetError(
            f"Data set '{path}' is a pickle file, which could run any code when it is read: convert it by "
            f"ding_lite convert {os.path.basename(path)} data.npz, and set policy.collect.data_path to the new file."
        )
    if data_type:
        if data_type not in KINDS:
            raise DatasetError(
                f"policy.collect.data_type is '{data_type}', expected one of {KINDS}.{closest(data_type, KINDS)}"
            )
        return data_type
    if ending in ENDINGS:
        return ENDINGS[ending]
    if os.path.isdir(path):
        return "minari" if os.path.isdir(os.path.join(path, "data")) else "npy"
    if MINARI_ID.search(path):
        return "minari"
    raise DatasetError(
        f"Data set '{path}': expected a file that ends with {', '.join(ENDINGS)}, an existing directory of .npy files, "
        f"or the id of a Minari data set; set policy.collect.data_type to one of {KINDS} if it is named otherwise."
    )


@contextmanager
def open_columns(path: str, data_type: str = "") -> Iterator[Columns]:
    """Return a context manager that opens a data set for reading.

    Raises:
        DatasetError: it is missing, damaged or of another kind. This may be detected only inside the context.
    """
    kind = find_kind(path, data_type)
    if kind != "minari" and not os.path.exists(path):
        hint = f": policy.collect.data_type is '{kind}'; for the Minari data set of this id, set it to 'minari'"
        hint = hint if MINARI_ID.search(path) else ""
        raise DatasetError(f"Data set '{path}' does not exist on machine '{socket.gethostname()}'{hint}.")
    openers = {"hdf5": _open_hdf5, "npz": _open_npz, "npy": _open_npy, "minari": _open_minari}
    try:
        with openers[kind](path) as columns:
            yield columns
    except DatasetError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DatasetError(
            f"Data set '{path}' cannot be read as {kind}: it is damaged, truncated or of another kind ({error})."
        ) from error


@contextmanager
def _open_hdf5(path: str) -> Iterator[Columns]:
    h5py = _load("h5py")
    with h5py.File(path, "r") as file:
        names: list[str] = []
        file.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
        yield Columns(names, lambda name: file[name][()], str(file.attrs.get(UNITS, "")))


@contextmanager
def _open_npz(path: str) -> Iterator[Columns]:
    file = np.load(path, allow_pickle=False)
    if not hasattr(file, "files"):
        raise DatasetError(f"Data set '{path}' holds a single array: expected an archive that numpy.savez wrote.")
    with file:
        attributes = json.loads(str(file[ATTRIBUTES])) if ATTRIBUTES in file.files else {}
        yield Columns(file.files, lambda name: file[name], attributes.get(UNITS, ""))


@contextmanager
def _open_npy(path: str) -> Iterator[Columns]:
    """Map the files into memory, so that all processes of a machine share the system's cache of them."""
    root = Path(path)
    names = [str(file.relative_to(root).with_suffix("")) for file in sorted(root.rglob("*.npy"))]
    # copy-on-write, because torch accepts only arrays that are writable
    attributes = root / f"{ATTRIBUTES}.json"
    units = json.loads(attributes.read_text()).get(UNITS, "") if attributes.exists() else ""
    yield Columns(names, lambda name: np.load(root / f"{name}.npy", mmap_mode="c", allow_pickle=False), units)


@contextmanager
def _open_minari(path: str) -> Iterator[Columns]:
    """Read all episodes. Each ends with a row, marked as padding, that holds only its last observation."""
    minari = _load("minari")
    try:
        given = os.path.join(path, "data")
        data = minari.MinariDataset(given) if os.path.isdir(given) else minari.load_dataset(path)
    except FileNotFoundError as error:
        machine = socket.gethostname()
        raise DatasetError(f"Minari data set '{path}' is not on machine '{machine}': {error}") from error
    parts: dict[str, list[np.ndarray]] = {}
    ended = True
    for episode in data.iterate_episodes():
        ended = bool(np.any(episode.terminations[-1:] | episode.truncations[-1:]))
        padding = np.arange(len(episode.rewards) + 1) == len(episode.rewards)
        columns = {
            "obs": episode.observations,
            "action": tree_map(_pad, episode.actions),
            "reward": _pad(episode.rewards),
            "done": _pad(episode.terminations),
            "traj_flag": padding,  # the last step has a successor, whether truncated or not
            PADDING: padding,
            UNFINISHED: (episode.infos or {}).get(UNFINISHED, np.zeros_like(padding)),
        }
        for name, array in flatten(columns):
            parts.setdefault(name, []).append(np.asarray(array))
    if not ended:  # the recording ended within the last episode
        parts[UNFINISHED][-1] = np.ones_like(parts[UNFINISHED][-1], np.bool_)
    yield Columns(list(parts), lambda name: np.concatenate(parts[name]), "env")


def _load(module: str) -> Any:
    return load_extra(module, "offline", "This data set")


def _pad(rows: Any) -> np.ndarray:
    rows = np.asarray(rows)
    return np.concatenate([rows, np.zeros_like(rows, shape=(1, *rows.shape[1:]))])


def flatten(columns: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names, such as `obs/camera`, and the leaves of nested dicts."""
    return dotted_items(columns, dot="/")


def check_target(path: str) -> str:
    """Return the kind of the data set that would be written to `path`, one of `KINDS`."""
    ending = os.path.splitext(path)[1].lower()
    if ending in ENDINGS:
        if ENDINGS[ending] == "hdf5":
            _load("h5py")
        return ENDINGS[ending]
    if MINARI_ID.search(path):
        if os.path.exists(_load("minari.storage").get_dataset_path(path)):
            raise DatasetError(f"Minari data set '{path}' exists already: choose another id, or delete it.")
        return "minari"
    if ending or not path:
        raise DatasetError(
            f"Data set '{path}': expected a name that ends with {', '.join(ENDINGS)}, a new directory for .npy files, "
            "or the id of a new Minari data set, such as 'cartpole/expert-v0'."
        )
    if os.path.exists(path):
        raise DatasetError(f"Directory '{path}' exists already: remove it, or write the data set to another one.")
    return "npy"


def write_columns(path: str, columns: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Write nested columns `[R, ...]` as HDF5, .npz, or a new directory of .npy files; the path's ending says which.

    A reader of `path` finds the complete data set or nothing. The attributes, numbers and strings that describe the
    origin of the data, become HDF5 attributes, an array `attributes` of JSON in .npz, or the file attributes.json.
    """
    kind = ENDINGS.get(os.path.splitext(path)[1].lower(), "npy")
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        if kind == "npy":
            _write_npy(Path(path), columns, attributes)
            return
        with atomic_file(path) as file:
            if kind == "npz":
                np.savez(file, **dict(flatten(columns)), attributes=np.array(json.dumps(attributes)))
            else:
                with _load("h5py").File(file, "w") as store:
                    store.attrs.update(attributes)
                    for name, array in flatten(columns):  # images are compressed
                        store.create_dataset(name, data=array, compression="lzf" if array.ndim > 2 else None)
    except OSError as error:
        raise DatasetError(f"Cannot write data set '{path}': {describe_os_error(error)}.") from error


def _write_npy(path: Path, columns: dict[str, Any], attributes: dict[str, Any]) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    for name, array in flatten(columns):
        target = temporary / f"{name}.npy"
        target.parent.mkdir(parents=True, exist_ok=True)
        np.save(target, array)
    (temporary / f"{ATTRIBUTES}.json").write_text(json.dumps(attributes, indent=1))
    temporary.rename(path)


def write_minari(path: str, columns: dict[str, Any], spaces: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Write whole episodes, as `collect_demo_data` records them, as the Minari data set whose id is `path`.

    `spaces` are `observation_space` and `action_space` of the environment, and its gymnasium spec `env`, or None.
    `attributes`, `policy` among them, become part of the description.
    """
    minari = _load("minari")
    buffers, ends = [], [0, *(np.flatnonzero(columns["traj_flag"]) + 1).tolist()]
    for start, stop in itertools.pairwise(ends):
        episode = tree_map(lambda column: column[start:stop], columns)  # noqa: B023 (called at once)
        last = tree_map(lambda leaf: leaf[-1:], episode["next_obs"])
        done = episode["done"]
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                observations=tree_map(lambda *parts: np.concatenate(parts), episode["obs"], last),
                actions=episode["action"],
                rewards=episode["reward"],
                terminations=done,
                truncations=episode["traj_flag"] & ~done,
                infos={UNFINISHED: np.full(len(done) + 1, episode[UNFINISHED][-1])},
            )
        )
    about = {"algorithm_name": attributes["policy"], "description": json.dumps(attributes)}
    try:
        minari.create_dataset_from_buffers(path, buffers, jpeg_encoding=False, **about, **spaces)
    except ValueError as error:
        raise DatasetError(f"Cannot write Minari data set '{path}': {error}") from error


def count_rows(columns: dict[str, Any]) -> int:
    """Return R, the number of rows."""
    return len(next(tree_leaves(columns)))

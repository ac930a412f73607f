"""Recordings of DI-engine, read from pickles: what is in them, and what is refused."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._utils import _rebuild_tensor_v2
from torch.storage import TypedStorage, _load_from_bytes

from ding_lite.offline.pickled import read_pickle
from ding_lite.worker import DatasetError, read_dataset
from tests.cli.commands import call

OBS = np.arange(24, dtype=np.float32).reshape(6, 4)
ACTION = np.array([0, 1, 0, 1, 0, 1])
STEPS = [
    dict(obs=torch.tensor(row), next_obs=torch.tensor(row + 4), action=torch.tensor([action]),
         reward=torch.tensor([2.0]), done=number == 5, collect_iter=3)
    for number, (row, action) in enumerate(zip(OBS, ACTION, strict=True))
]  # fmt: skip
PARTS = dict(observations=OBS, actions=ACTION, rewards=np.full(6, 2.0), next_observations=OBS + 4)
DONE = ACTION.astype(bool) & (np.arange(6) == 5)
RECORDINGS: dict[str, Any] = {
    "transitions": STEPS,
    "numpy": [{key: value.numpy() if isinstance(value, torch.Tensor) else value for key, value in one.items()}
              for one in STEPS],
    "episodes": [STEPS[:2], STEPS[2:]],
    "trajectories": [{key: part[cut] for key, part in (PARTS | {"terminals": DONE}).items()}
                     for cut in (slice(2), slice(2, 6))],
    "columns": PARTS | {"terminals": DONE, "timeouts": DONE},
}  # fmt: skip


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("kind", RECORDINGS)
def test_a_recording_becomes_columns(kind: str, protocol: int, tmp_path: Path) -> None:
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(RECORDINGS[kind], protocol))
    columns = read_pickle(str(tmp_path / "x.pkl"))
    expected = {"obs": OBS, "next_obs": OBS + 4, "action": ACTION, "reward": [2.0] * 6, "done": DONE}
    for name, value in expected.items():
        assert np.array_equal(columns[name], value), name
    if kind in ("episodes", "trajectories"):
        assert columns["traj_flag"].tolist() == [False, True, False, False, False, True]


@pytest.mark.parametrize(
    "value",
    [torch.arange(12).reshape(3, 4).t(), torch.ones(3, 2).half() / 3, torch.zeros(0), torch.ones(4, dtype=torch.bool),
     np.arange(6.0).reshape(2, 3).T, np.arange(3, dtype=">f8"), np.zeros((0, 3)), np.float64(3), np.bool_(True)],
    ids=str,
)  # fmt: skip
def test_arrays_of_any_layout_are_read(value: Any, tmp_path: Path) -> None:
    row = dict(obs=value, action=0, reward=1.0, done=True)
    for protocol in (2, 5):
        (tmp_path / "x.pkl").write_bytes(pickle.dumps([row], protocol))
        assert np.array_equal(read_pickle(str(tmp_path / "x.pkl"))["obs"][0], np.asarray(value))


def test_the_command_writes_a_data_set_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(STEPS))
    call("convert", str(tmp_path / "x.pkl"), str(tmp_path / "x.npz"))
    with pytest.raises(DatasetError, match=r"x\.npz' exists already: remove it"):
        call("convert", str(tmp_path / "x.pkl"), str(tmp_path / "x.npz"))
    for data_type in ("", "naive"):  # DI-engine's configs say that it is a pickle
        assert len(read_dataset(str(tmp_path / "x.npz"), data_type)) == 6
    with pytest.raises(DatasetError, match=r"is a pickle file.*: convert it by ding_lite convert x\.pkl data\.npz"):
        read_dataset(str(tmp_path / "x.pkl"))


class Call:
    """Is pickled as the call of a function."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.reduced = function, args

    def __reduce__(self) -> Any:
        return self.reduced


def storage(data: Any, archive: bool = False) -> bytes:
    buffer = io.BytesIO()
    torch.save(data, buffer, _use_new_zipfile_serialization=archive)
    return buffer.getvalue()


def tensor(offset: Any, size: Any, stride: Any) -> Any:
    numbers = TypedStorage(wrap_storage=torch.zeros(4).untyped_storage(), dtype=torch.float32, _internal=True)
    four = Call(_load_from_bytes, storage(numbers))
    return Call(_rebuild_tensor_v2, four, offset, size, stride, False, {})


TOUCH = Call(os.mkdir, "touched")  # code that a pickle runs
POINTERS = (  # an array of Python objects, made of bytes as addresses, by a type whose flags are changed
    b"\x80\x02]cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR(K\x01(K\x01tcnumpy\ndtype\n"
    b"(U\x02O8K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x08AAAAAAAAtba."
)
ITSELF: list[Any] = []
ITSELF.append(ITSELF)
ROW = dict(action=0, reward=1.0, done=True)
ATTACKS: dict[str, tuple[Any, str]] = {
    "a function": (TOUCH, "contains posix.mkdir, but only NumPy arrays"),
    "a builtin": (Call(eval, "__import__('os').mkdir('touched')"), "contains builtins.eval"),
    "a method": (b"\x80\x04\x8c\x05numpy\x94\x8c\x0cdtype.fields\x94\x93.", "contains numpy.dtype.fields"),
    "code in a storage": (Call(_load_from_bytes, pickle.dumps(TOUCH)), "a torch storage that is more than numbers"),
    "code in a file": (Call(_load_from_bytes, storage([TOUCH])), "a torch storage that is more than numbers"),
    "an attribute": (b"\x80\x02cnumpy\ndtype\nN}X\x05\x00\x00\x00_callK\x01s\x86b.", "sets an attribute"),
    "pointers": (POINTERS, "is no recording"),
    "beyond": (tensor(0, (100,), (1,)), "a tensor beyond its memory"),
    "before": (tensor(-1, (2,), (1,)), "a tensor beyond its memory"),
    "endless": (tensor(0, (10**12,), (0,)), "a tensor beyond its memory"),
    "a cycle": (ITSELF, "more than 8 levels"),
    "a path": ([ROW | {"obs": {"../../x": np.zeros(2)}}], "keys that are no names"),
    "objects": ([ROW | {"obs": 10**400}], "'obs' contains other things than numbers"),
    "texts": ([ROW | {"obs": np.array(["a"])}], "arrays of type 'U1'"),
    "a huge length": (b"\x80\x04\x8e" + (2**40).to_bytes(8, "little") + b"x.", "cannot be read as a pickle"),
    "nothing": (b"", "cannot be read as a pickle"),
    "a file of torch's": (storage([ROW], archive=True), "contains an archive, as torch.save writes it"),
    "no observations": ([ROW], "expected dicts of obs, action, reward, one lacks 'obs'"),
    "a column of some": (
        [ROW | {"obs": 1.0}, ROW | {"obs": 1.0, "next_obs": 2.0}],
        "only some of its dicts have",
    ),
    "a number": (3, "is no recording of DI-engine's"),
    "an empty list": ([], "it is empty"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ATTACKS)
def test_anything_else_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    content, message = ATTACKS[kind]
    (tmp_path / "x.pkl").write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
    with pytest.raises(DatasetError) as caught:
        read_pickle("x.pkl")
    assert message in str(caught.value)
    assert not (tmp_path / "touched").exists()

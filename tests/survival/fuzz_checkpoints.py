"""Damages checkpoint files in many ways and sees that none is read as something else.

    python -m tests.survival.fuzz_checkpoints --number 1000 --seed 0

For each item one file of a store is changed. Whatever is then read, by the store or by the file's name, has to be bit
for bit what was saved, or a `CheckpointError` of one line. Any other exception is a failure, and so is a hang. A forged
global file, whose inner checksums fit the change, may be read as another state, because no other file says what it
should be. It must not run anything either.
"""

from __future__ import annotations

import argparse
import io
import os
import pickletools
import random
import signal
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ding_lite.utils.checkpoint.file import CheckpointError
from ding_lite.utils.checkpoint.store import CheckpointStore, Loaded, load_file

SECONDS = 10.0  # that one item may take
OPCODES = [ord(opcode.code) for opcode in pickletools.opcodes]
TARGETS = ("iteration_20.pth.tar", "iteration_20.rank_0.pth.tar")


class HangError(BaseException):
    """An item took too long. Not an Exception, which reading a checkpoint would turn into a CheckpointError."""


def make_state(number: int) -> dict[str, Any]:
    """Tensors of several types, views of one storage, and everything else that a state may hold."""
    flat = torch.arange(60, dtype=torch.float32) + number
    return {
        "views": [flat[:24].view(2, 3, 4), flat[24:]],
        "transposed": torch.arange(6, dtype=torch.float64).view(2, 3).t(),
        "obs": torch.randint(0, 255, (500,), dtype=torch.uint8, generator=torch.Generator().manual_seed(number)),
        "flags": torch.tensor([True, False]),
        "half": torch.tensor([1.5, float("nan")], dtype=torch.bfloat16),
        "counts": {"envstep": number, "large": 1 << 70, "return": 0.1 * number, 3: (None, True, "text", b"bytes")},
    }


def image(value: Any) -> Any:
    """Make of a state something that is equal only for states that are equal bit for bit."""
    if isinstance(value, torch.Tensor):
        data = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return ("tensor", str(value.dtype), tuple(value.shape), data)
    if isinstance(value, dict):
        return ("dict", [(image(key), image(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [image(item) for item in value])
    return (type(value).__name__, repr(value))


# Mutations: bytes -> bytes.


def flip(data: bytes, rng: random.Random) -> bytes:
    """Flip one to eight bits, close to each other or not."""
    new = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        new[rng.randrange(len(new))] ^= 1 << rng.randrange(8)
    return bytes(new)


def flip_structure(data: bytes, rng: random.Random) -> bytes:
    """Flip a bit in the archive's directory, at the end of the file, where one is not hidden by a checksum."""
    new = bytearray(data)
    new[rng.randrange(max(0, len(new) - 700), len(new))] ^= 1 << rng.randrange(8)
    return bytes(new)


def cut(data: bytes, rng: random.Random) -> bytes:
    """Cut off the end, the beginning, or a piece in between."""
    start, stop = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return rng.choice([data[:start], data[start:], data[:start] + data[stop:]])


def insert(data: bytes, rng: random.Random) -> bytes:
    """Insert random bytes somewhere, often at the beginning or the end."""
    position = rng.choice([0, len(data), rng.randrange(len(data))])
    return data[:position] + rng.randbytes(rng.choice([1, 4, 64, 1000])) + data[position:]


def swap(data: bytes, rng: random.Random) -> bytes:
    """Swap two blocks of equal size."""
    size = rng.choice([1, 16, 64, 128])
    first, second = (rng.randrange(0, max(1, len(data) - size), size) for _ in range(2))
    new = bytearray(data)
    new[first : first + size], new[second : second + size] = data[second : second + size], data[first : first + size]
    return bytes(new)


def zero(data: bytes, rng: random.Random) -> bytes:
    """Fill a block with zero, as a file system may do after a power cut."""
    start, size = rng.randrange(len(data)), rng.choice([16, 512, 4096, len(data)])
    return (data[:start] + bytes(size))[: len(data)] + data[start + size :]


def duplicate(data: bytes, rng: random.Random) -> bytes:
    """Repeat a block, or put a damaged copy of the file before or behind it."""
    start, stop = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    pieces = [data[:stop] + data[start:stop] + data[stop:], flip(data, rng) + data, data + flip(data, rng)]
    return rng.choice(pieces)


def edit_pickle(data: bytes, rng: random.Random) -> bytes:
    """Replace bytes of the pickle by other opcodes; the checksums do not fit."""
    start = data.find(b"\x80\x02}") if b"\x80\x02}" in data else 0
    new = bytearray(data)
    for _ in range(rng.choice([1, 2, 5])):
        new[rng.randrange(start, min(len(new), start + 900))] = rng.choice(OPCODES)
    return bytes(new)


def forge(data: bytes, rng: random.Random) -> bytes:
    """Change the contents of a record, mostly the pickle, and write an archive whose checksums fit."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return flip(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    pickled = next(name for name in records if name.endswith("data.pkl"))
    name = rng.choice([pickled, pickled, pickled, *records])
    change = rng.choice([edit_pickle, flip, cut, insert, swap, zero])
    records[name] = change(records[name], rng) if records[name] else b"x"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in records.items():
            archive.writestr(name, content)
        for part in archive.infolist():
            part.external_attr = 0  # as torch writes it
    return file.getvalue()


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip,
    flip_structure,
    cut,
    insert,
    swap,
    zero,
    duplicate,
    edit_pickle,
    forge,
)


class Fuzzer:
    """A store with two checkpoints, and what of each must be read."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        store = CheckpointStore(directory, keep=2)
        self._images = {}
        for number in (10, 20):
            state, local = make_state(number), make_state(100 + number)
            assert store.save(number, state, local) is None
            self._images[f"iteration_{number}"] = image([state, local])
        self._files = {path.name: path.read_bytes() for path in self._directory.iterdir()}
        self.outcomes: Counter[str] = Counter()

    def run(self, rng: random.Random) -> None:
        """Do one item.

        Raises:
            AssertionError: what was read is not what was saved, or the error has more than one line.
        """
        mutation, target = rng.choice(MUTATIONS), rng.choice(TARGETS)
        for name, data in self._files.items():  # each a new file: what was removed or linked is as it was
            (self._directory / name).unlink(missing_ok=True)
            (self._directory / name).write_bytes(mutation(data, rng) if name == target else data)
        forged = mutation is forge and target == TARGETS[0]
        self._try("store", lambda: CheckpointStore(str(self._directory), keep=2).load_newest(), changed=forged)
        self._try("file", lambda: load_file(str(self._directory / TARGETS[0])), changed=forged)

    def _try(self, how: str, load: Callable[[], Loaded], changed: bool) -> None:
        """Load; `changed` says that another state is no failure."""
        loaded, lines = None, []
        try:
            loaded = load()
        except CheckpointError as error:
            lines = [str(error)]
        assert all("\n" not in line for line in (lines if loaded is None else loaded.skipped))
        if loaded is None:
            self.outcomes[f"{how}: refused"] += 1
            return
        same = loaded.name in self._images and image([loaded.state, loaded.local_state]) == self._images[loaded.name]
        assert same or changed, f"{how}: {loaded.name} was read as another state"
        self.outcomes[f"{how}: {loaded.name}" if same else f"{how}: forged"] += 1


def _on_alarm(*_: object) -> None:
    raise HangError


def main() -> None:
    """Run the items; the first failure ends it, naming seed and item."""
    parser = argparse.ArgumentParser(description="Damage checkpoint files and see that none is misread.")
    parser.add_argument("--number", type=int, default=1000, help="how many items")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if "MALLOC_PERTURB_" not in os.environ:  # memory that is read without having been written is then seen, in glibc
        command = [sys.executable, "-m", "tests.survival.fuzz_checkpoints", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "MALLOC_PERTURB_": "165"})
    os.fsync = lambda fd: None  # no power cut comes here
    signal.signal(signal.SIGALRM, _on_alarm)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        fuzzer = Fuzzer(directory)
        for item in range(args.number):
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                fuzzer.run(random.Random(f"{args.seed} {item}"))
            except BaseException:
                print(f"seed {args.seed}, item {item} failed", flush=True)
                raise
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    for outcome, count in sorted(fuzzer.outcomes.items()):
        print(f"{count:6}  {outcome}")
    print(f"{args.number} items: none was misread")


if __name__ == "__main__":
    main()

"""Other processes see a module whole, however they were started and whatever becomes of one of them."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.queues import SimpleQueue
from typing import Any

import pytest
import torch
from torch import multiprocessing, nn

from ding_lite.torch_utils.shared_module import SharedModule

TIMEOUT = 60


def make_module(value: float) -> Any:
    """Return some MB of equal numbers: an image layer in channels_last, a matrix, a buffer."""
    module = nn.Sequential(nn.Conv2d(8, 64, 3), nn.Linear(1000, 500), nn.BatchNorm1d(500))
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.fill_(value)
    return module


def values_of(module: nn.Module) -> set[float]:
    tensors = (*module.parameters(), *module.buffers())
    return {float(value) for tensor in tensors for value in tensor.detach().aminmax()}


def read_until(shared: SharedModule, last: int, found: SimpleQueue[Any]) -> None:
    """Read every version that can be had; tell them, and the numbers that were in each."""
    torch.set_num_threads(1)
    module, version, seen = make_module(-1.0), -1, []
    while version < last:
        version = shared.read(module, version)
        seen.append((version, sorted(values_of(module))))
    found.put(seen)


def hold_for_ever(shared: SharedModule, ready: SimpleQueue[bool]) -> None:
    with shared._locked():
        ready.put(True)
        time.sleep(TIMEOUT)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_reader_never_sees_a_mix_of_versions(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    shared, last = SharedModule(make_module(0.0)), 40
    found = context.SimpleQueue()
    readers = [context.Process(target=read_until, args=(shared, last, found), daemon=True) for _ in range(2)]
    for reader in readers:
        reader.start()
    modules = [make_module(0.0) for _ in range(2)]
    for version in range(1, last + 1):
        module = modules[version % 2]
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                tensor.fill_(version)
        assert shared.write(module) == version
    for _ in readers:
        seen = found.get()
        assert all(values == [version] for version, values in seen)
        assert seen[-1][0] == last
    for reader in readers:
        reader.join(TIMEOUT)


def test_a_process_that_is_killed_in_the_middle_blocks_nobody() -> None:
    context, shared = multiprocessing.get_context("fork"), SharedModule(make_module(0.0))
    ready = context.SimpleQueue()
    holder = context.Process(target=hold_for_ever, args=(shared, ready), daemon=True)
    holder.start()
    assert ready.get()
    assert holder.pid
    os.kill(holder.pid, signal.SIGKILL)
    assert shared.write(make_module(1.0)) == 1
    holder.join(TIMEOUT)


def test_what_is_read_and_copied_is_memory_of_ones_own() -> None:
    source = make_module(1.0)
    shared = SharedModule(source)
    with torch.no_grad():
        source[1].weight.zero_()
    own: Any = shared.create_copy()
    assert values_of(own) == {1.0}
    assert own[0].weight.is_contiguous(memory_format=torch.channels_last)
    shared.write(make_module(2.0))
    assert values_of(own) == {1.0}
    assert shared.read(own, 0) == 1
    assert values_of(own) == {2.0}


def test_the_version_that_one_has_is_not_copied_again() -> None:
    shared, own = SharedModule(make_module(0.0)), make_module(5.0)
    assert shared.read(own, 0) == 0
    assert values_of(own) == {5.0}


def test_another_model_is_refused() -> None:
    shared = SharedModule(nn.Linear(3, 2))
    with pytest.raises(
        ValueError, match=r"expected a module with tensors of shapes \[\(2, 3\), \(2,\)\], got \[\(2, 4"
    ):
        shared.write(nn.Linear(4, 2))

"""A replay buffer that was written to a file and read back goes on as the one that was written, bit by bit."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.utils.checkpoint.file import load_checkpoint, save_checkpoint
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_map
from ding_lite.worker import PrioritizedReplayBuffer, ReplayBuffer, SequenceReplayBuffer, UniformReplayBuffer
from ding_lite.worker.replay.prioritized import PrioritizedSampler
from ding_lite.worker.replay.state import deal_replay_states
from tests.worker.replay.history import History

NUM_ENVS = 3


def prioritized_sequences(*args: Any, **options: Any) -> ReplayBuffer:
    return PrioritizedReplayBuffer(*args, **options)


KINDS: list[Callable[..., ReplayBuffer]] = [
    UniformReplayBuffer,
    PrioritizedReplayBuffer,
    SequenceReplayBuffer,
    prioritized_sequences,
]
SEQUENCES = (SequenceReplayBuffer, prioritized_sequences)


def make_buffer(kind: Callable[..., ReplayBuffer], stack: int = 1, seed: int = 1, **options: Any) -> ReplayBuffer:
    """Return an empty buffer of about 20 rows, samples of 3 steps."""
    span = {"unroll_len": 3} if kind in SEQUENCES else {"nstep": 3}
    size = 6 * NUM_ENVS if kind in SEQUENCES else 20 * NUM_ENVS
    return kind(size, NUM_ENVS, frame_stack=stack if stack > 1 else 0, seed=seed, **span | options)


def nested(block: dict[str, Any]) -> dict[str, Any]:
    """Return the block with dicts of observations."""
    keys = {"obs", "final_obs", "last_obs"} & set(block)
    return block | {key: {"image": block[key], "inner": {"sum": block[key].double() / 7}} for key in keys}


def via_file(buffer: ReplayBuffer, path: Path, mmap: bool) -> dict[str, Any]:
    """Return the buffer's state from a checkpoint file; mapped into memory it must not be written to."""
    save_checkpoint(str(path), buffer.state_dict())
    if not mmap:
        return load_checkpoint(str(path))
    os.chmod(path, 0o400)
    return torch.load(path, mmap=True, weights_only=True)["state"]


def assert_equal(left: Any, right: Any) -> None:
    def compare(a: Any, b: Any) -> None:
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b

    tree_map(compare, left, right)
    assert left.keys() == right.keys()


def go_on(buffers: list[ReplayBuffer], blocks: list[dict[str, Any]], rng: np.random.Generator) -> None:
    """Sample, push, and set priorities in all alike; their samples must be the same."""
    for block in [None, *blocks]:
        if block is not None:
            for buffer in buffers:
                buffer.push(block)
        for _ in range(2):
            first, *others = [list(buffer.batches(50, 3)) for buffer in buffers] if buffers[0].count() else [[]]
            for other in others:
                for expected, batch in zip(first, other, strict=True):
                    assert_equal(batch, expected)
            for batch in first:
                priority = torch.from_numpy(rng.random(50) * 3)
                for buffer in buffers:
                    buffer.update(batch["index"], priority)


@pytest.mark.parametrize(
    ("form", "mmap"), [("dict", False), ("stack", True), pytest.param("vector", True, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_buffer_that_was_read_back_goes_on_as_the_one_that_was_written(
    kind: Callable[..., ReplayBuffer], form: str, mmap: bool, tmp_path: Path
) -> None:
    stack, rng = 4 if form == "stack" else 1, np.random.default_rng(0)
    history = History(NUM_ENVS, stack)

    def blocks(*n_steps: int) -> list[dict[str, Any]]:
        played = [history.play(n_step) for n_step in n_steps]
        return [nested(block) for block in played] if form == "dict" else played

    original = make_buffer(kind, stack)
    for i, before in enumerate([(), (5,), (6, 8), (1, 9), (7, 3, 12)]):  # empty, filling, beyond the ring's end
        go_on([original], blocks(*before), rng)
        state = via_file(original, tmp_path / f"{i}.pth.tar", mmap)
        fresh, used = make_buffer(kind, stack, seed=99), make_buffer(kind, stack, seed=98)
        go_on([used], blocks_of_another(form, stack), rng)  # whatever it held must be gone
        for buffer in (fresh, used):
            buffer.load_state_dict(state)
            assert buffer.count() == original.count()
        state = tree_map(lambda leaf: leaf.zero_() if isinstance(leaf, torch.Tensor) else leaf, state)  # nobody's now
        go_on([original, fresh, used], blocks(*(2, 5, 1, 11, 4) if i % 2 else (3,)), rng)


def blocks_of_another(form: str, stack: int) -> list[dict[str, Any]]:
    history = History(NUM_ENVS, stack, seed=77)
    return [nested(history.play(n)) if form == "dict" else history.play(n) for n in (9, 15)]


def samples(buffer: ReplayBuffer, envs: range, newest: int | None = None) -> dict[str, Any]:
    """Return all samples of some environments, those that start in the `newest` rows, and their priorities."""
    starts, size = buffer.ring.starts(buffer.view.span), buffer.ring.size
    rows = np.array([row for row in starts if newest is None or row >= size - newest], np.int64)
    index = torch.from_numpy(buffer.ring.places(rows[:, None], np.array(envs)).ravel())
    batch = buffer.view.gather(buffer.ring, {"index": index})
    if isinstance(buffer.sampler, PrioritizedSampler):
        batch["priority"] = torch.from_numpy(buffer.sampler._tree[index.numpy()])
    return batch


def dealt(buffers: list[ReplayBuffer], spans: list[slice], fresh: ReplayBuffer) -> ReplayBuffer:
    """Return `fresh` with the environments that the spans take of the buffers."""
    states = [copy.deepcopy(buffer.state_dict()) for buffer in buffers]
    rng = states[0]["sampler"]["rng"]
    fresh.load_state_dict(deal_replay_states(list(zip(states, spans, strict=True)), fresh.ring.num_rows, rng))
    return fresh


@pytest.mark.parametrize("form", ["vector", "dict", "stack"])
@pytest.mark.parametrize("kind", KINDS)
def test_environments_that_are_dealt_to_other_buffers_keep_their_samples(
    kind: Callable[..., ReplayBuffer], form: str
) -> None:
    stack, rng = 4 if form == "stack" else 1, np.random.default_rng(0)

    def create(num_envs: int, rows: int = 20) -> ReplayBuffer:
        span = {"unroll_len": 3} if kind in SEQUENCES else {"nstep": 3}
        size = (rows - (4 if kind in SEQUENCES else 0)) // (3 if kind in SEQUENCES else 1) * num_envs
        return kind(size, num_envs, frame_stack=stack if stack > 1 else 0, **span)

    for n_steps in ((5,), (6, 8), (7, 3, 12), (7, 3, 12, 11)):
        history, whole = History(6, stack), create(6)
        blocks = [history.play(n_step) for n_step in (*n_steps, 4, 9)]
        blocks = [nested(block) for block in blocks] if form == "dict" else blocks
        go_on([whole], blocks[:-2], rng)
        two = [dealt([whole], [slice(0, 2)], create(2)), dealt([whole], [slice(2, 6)], create(4))]
        three = [
            dealt(two, [slice(0, 1), slice(0, 0)], create(1)),
            dealt(two, [slice(1, 2), slice(0, 1)], create(2)),
            dealt(two, [slice(0, 0), slice(1, 4)], create(3)),
        ]
        again = dealt(three, [slice(0, 1), slice(0, 2), slice(0, 3)], create(6))
        usable = whole.ring.size - whole.ring.starts(whole.view.span).start
        for buffer, own, envs in [
            (two[0], range(2), range(2)),
            (three[2], range(3), range(3, 6)),
            (again, range(6), range(6)),
        ]:
            assert_equal(samples(buffer, own), samples(whole, envs, usable))
        smaller = dealt(two, [slice(0, 2), slice(0, 4)], create(6, rows=12))
        newest = smaller.ring.size - smaller.ring.starts(smaller.view.span).start
        assert_equal(samples(smaller, range(6)), samples(whole, range(6), newest))
        for block in blocks[-2:]:
            whole.push(block)
            again.push(block)
            assert_equal(samples(again, range(6)), samples(whole, range(6)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_step", [3, 19])
def test_a_state_shares_the_rings_memory_and_holds_the_rows_in_use_alone(
    kind: Callable[..., ReplayBuffer], n_step: int
) -> None:
    buffer, history = make_buffer(kind, stack=4), History(NUM_ENVS, 4)
    buffer.push(history.play(n_step))
    ring = buffer.state_dict()["ring"]
    (observations,) = ring["observations"]
    for key, column in {**ring["columns"], "obs": observations}.items():
        rows = min(n_step + (kind in SEQUENCES and key == "obs"), buffer.ring.num_rows)
        assert len(column) == rows * NUM_ENVS
        assert column.untyped_storage().nbytes() == column.numel() * column.element_size()  # what torch.save writes
        assert column.data_ptr() == buffer.ring.columns[key].data_ptr()


@pytest.mark.parametrize(
    ("kind", "options", "form", "message"),
    [
        (UniformReplayBuffer, {"replay_buffer_size": 66}, "vector", "num_rows 22, expected 20"),
        (UniformReplayBuffer, {"num_envs": 2}, "vector", "num_rows 30, expected 20"),
        (UniformReplayBuffer, {"num_envs": 2, "replay_buffer_size": 40}, "vector", "num_envs 2, expected 3"),
        (UniformReplayBuffer, {"frame_stack": 4}, "stack", "frame_stack 4, expected 1"),
        (UniformReplayBuffer, {"nstep": 2}, "vector", "sample_rows 2, expected 3"),
        (UniformReplayBuffer, {}, "dict", r"column obs None, expected torch.uint8 \[2, 2\]"),
        (UniformReplayBuffer, {}, "wide", r"column obs torch.uint8 \[2, 5\], expected torch.uint8 \[2, 2\]"),
        (UniformReplayBuffer, {}, "float", r"column reward torch.uint8 \[\], expected torch.float32 \[\]"),
        (UniformReplayBuffer, {}, "more", r"column logit torch.float32 \[3\], expected None"),
        (PrioritizedReplayBuffer, {}, "vector", "sampler PrioritizedSampler, expected UniformSampler"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(
    kind: Callable[..., ReplayBuffer], options: dict[str, Any], form: str, message: str
) -> None:
    buffer, twin = make_buffer(UniformReplayBuffer), make_buffer(UniformReplayBuffer)
    mine = History(NUM_ENVS, 1).play(8)
    for each in (buffer, twin):
        each.push(mine)
    options = {"replay_buffer_size": 60, "num_envs": NUM_ENVS, "nstep": 3} | options
    history, other = History(options["num_envs"], 4 if form == "stack" else 1), kind(**options)
    block = history.play(6)
    other.push(nested(block) if form == "dict" else block | extra_columns(form, block))
    with pytest.raises(ConfigError, match=message):
        buffer.load_state_dict(other.state_dict())
    assert_equal(buffer.sample(200), twin.sample(200))


def extra_columns(form: str, block: dict[str, Any]) -> dict[str, Any]:
    if form == "wide":
        finals = {"final_obs": torch.zeros(len(block["final_obs"]), 2, 5, dtype=torch.uint8)}
        return {"obs": torch.zeros(6, NUM_ENVS, 2, 5, dtype=torch.uint8)} | finals
    if form == "float":
        return {"reward": block["reward"].byte()}
    return {"logit": torch.zeros(6, NUM_ENVS, 3)} if form == "more" else {}

"""Saves and restores a replay buffer, so that a resumed run draws the same samples as an uninterrupted one."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import dotted_items, tree_leaves, tree_map
from ding_lite.worker.replay.ring import Ring, Sampler, View

CHUNK = 2**23  # bytes that are compressed together, before compression
WORTHWHILE = 4  # the first chunk must shrink by this factor: writing to disk is about as fast as compressing
LEVEL = 1  # zlib's level; higher ones take longer and gain little


def replay_state(ring: Ring, sampler: Sampler, view: View) -> dict[str, Any]:
    """Return the state of a replay buffer's parts.

    The large tensors hold the rows in use and share the ring's memory, so they must be written to a file before the
    next push. Only the side table, and image frames, which are compressed, are copied.
    """
    first, *others = [_ring_state(part) for part in ring.parts]
    state = {**first, "others": others} if others else first
    return {"layout": _layout(ring, sampler, view), "ring": state, "sampler": sampler.state_dict()}


def load_replay_state(ring: Ring, sampler: Sampler, view: View, state: dict[str, Any]) -> None:
    """Copy a state into a replay buffer's ring and sampler.

    Raises:
        ConfigError: the state belongs to a buffer with other parts, sizes or columns. This buffer is unchanged.
    """
    here, there = _layout(ring, sampler, view), dict(state["layout"])
    if ring.columns and state["ring"]["columns"]:
        here, there = here | describe(ring.columns), there | describe(state["ring"]["columns"])
    for key in here | there:
        if (expected := here.get(key)) != (found := there.get(key)):
            raise ConfigError(
                f"The saved replay buffer has {key} {found}, expected {expected}: resume with the buffer, nstep "
                "and environments of the run that saved it, or start a new run from its model with "
                "policy.learn.learner.hook.load_ckpt_before_run=CHECKPOINT."
            )
    for part, own in zip(ring.parts, [state["ring"], *state["ring"].get("others", ())], strict=True):
        _load_ring(part, own)
    sampler.load_state_dict(state["sampler"])


def _layout(ring: Ring, sampler: Sampler, view: View) -> dict[str, Any]:
    """Return the properties, besides the columns, in which a state and the buffer must agree."""
    parts = {"sampler": type(sampler).__name__, "view": type(view).__name__}
    sizes = {"num_rows": ring.num_rows, "num_envs": ring.num_envs, "frame_stack": ring.stack}
    actors = {"num_actors": len(ring.parts)} if len(ring.parts) > 1 else {}
    return parts | sizes | actors | {"keeps_last": ring.keeps_last, "sample_rows": view.span}


def _ring_state(ring: Ring, compress: bool = True) -> dict[str, Any]:
    num_places = ring.size * ring.num_envs
    columns = tree_map(lambda leaf: first_places(leaf, num_places), ring.columns)
    observations: list[Any] = []
    if columns:
        num_obs = min(ring.size + ring.keeps_last, ring.num_rows) * ring.num_envs
        observations = [first_places(leaf, num_obs) for leaf in tree_leaves(ring.columns["obs"])]
        if compress:
            observations = [compress_frames(frames, ring.num_envs) for frames in observations]
        columns["obs"] = tree_map(lambda leaf: leaf[:0].clone(), ring.columns["obs"])  # type and shape
    final_place = (ring.slot >= 0).nonzero().squeeze(1)
    final_slot = ring.slot[final_place]
    return {
        "columns": columns,
        "observations": observations,
        "episode_step": first_places(ring.episode_step, num_places),
        "final_place": final_place,
        "final_obs": tree_map(lambda table: table[final_slot], ring.finals.obs) if len(final_place) else None,
        "cursor": ring.cursor,
        "size": ring.size,
    }


def _load_ring(ring: Ring, state: dict[str, Any]) -> None:
    if state["columns"]:
        if not ring.columns:
            ring.allocate(state["columns"])
        tree_map(lambda column, rows: column[: len(rows)].copy_(rows), ring.columns, state["columns"])
        for column, frames in zip(tree_leaves(ring.columns["obs"]), state["observations"], strict=True):
            decompress_frames(frames, column)
    ring.cursor, ring.size = state["cursor"], state["size"]
    ring.episode_step[: ring.size * ring.num_envs] = state["episode_step"].to(ring.device)
    ring.remove_finals(slice(None))
    if len(state["final_place"]):
        obs = tree_map(lambda leaf: leaf.to(ring.device), state["final_obs"])
        ring.slot[state["final_place"].to(ring.device)] = ring.finals.put(obs)


def deal_replay_states(
    parts: Sequence[tuple[dict[str, Any], slice]], num_rows: int, rng: dict[str, Any]
) -> dict[str, Any]:
    """Return the state of a buffer that has some environments of several others, with their newest rows.

    `parts` are states of the others, which have equally many rows, and which of their environments to take; `num_rows`
    are those of the new buffer, and `rng` is the state of the random generator of its sampler.
    """
    first, sampler = parts[0][0], parts[0][0]["sampler"]
    layout = first["layout"] | {"num_rows": num_rows, "num_envs": sum(span.stop - span.start for _, span in parts)}
    is_full = first["ring"]["size"] == first["layout"]["num_rows"]
    unusable = int(layout["keeps_last"] and is_full)  # the oldest row, whose observation the last one has replaced
    ring = _create_ring(layout)
    ring.size = min(first["ring"]["size"] - unusable, num_rows)
    ring.cursor = ring.size % num_rows
    if columns := first["ring"]["columns"]:
        ring.allocate(columns)
    priorities, begin = list[Any](), 0
    for state, span in parts:
        priorities.append(_copy_envs(state, span, ring, begin))
        begin += span.stop - span.start
    dealt = {key: max(state["sampler"][key] for state, _ in parts) for key in sampler if key not in ("rng", "priority")}
    if "priority" in sampler:
        dealt["priority"] = torch.cat(priorities, 1).flatten()
        if ring.size == num_rows:  # no sample starts at the oldest rows of a full buffer, see `Ring.starts`
            dealt["priority"][: (layout["frame_stack"] - 1 + layout["keeps_last"]) * ring.num_envs] = 0.0
    return {"layout": layout, "ring": _ring_state(ring, compress=False), "sampler": {**dealt, "rng": rng}}


def deal_actors(parts: Sequence[tuple[dict[str, Any], slice]], num_rows: int, rng: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a buffer for actors that has parts of several others, see `deal_replay_states`.

    `parts` says which environments of the others' actors, counted from one actor to the next, are those of an actor.
    """
    dealt = []
    for state, span in parts:
        layout = {key: value for key, value in state["layout"].items() if key != "num_actors"}
        actor, num_places = span.start // layout["num_envs"], layout["num_rows"] * layout["num_envs"]
        ring, sampler = [state["ring"], *state["ring"].get("others", ())][actor], dict(state["sampler"])
        if "priority" in sampler:
            first = actor * num_places
            sampler["priority"] = sampler["priority"][first : first + ring["size"] * layout["num_envs"]]
        own = {"layout": layout, "ring": ring, "sampler": sampler}
        dealt.append(deal_replay_states([(own, slice(0, layout["num_envs"]))], num_rows, rng))
    (first_part, *others), samplers = dealt, [each["sampler"] for each in dealt]
    if not others:
        return first_part
    sampler = {key: max(each[key] for each in samplers) for key in samplers[0] if key not in ("rng", "priority")}
    if "priority" in samplers[0]:
        num_places = num_rows * first_part["layout"]["num_envs"]
        *full, last = [each["priority"] for each in samplers]
        sampler["priority"] = torch.cat([*(F.pad(part, (0, num_places - len(part))) for part in full), last])
    layout = first_part["layout"] | {"num_actors": len(dealt)}
    ring = {**first_part["ring"], "others": [each["ring"] for each in others]}
    return {"layout": layout, "ring": ring, "sampler": {**sampler, "rng": rng}}


def _create_ring(layout: dict[str, Any]) -> Ring:
    return Ring(layout["num_rows"], layout["num_envs"], layout["frame_stack"], keeps_last=layout["keeps_last"])


def _copy_envs(state: dict[str, Any], span: slice, into: Ring, begin: int) -> Tensor | None:
    """Copy the newest rows of environments into those of a ring from `begin` on; return their priorities `[T, N]`."""
    ring = _create_ring(state["layout"])
    _load_ring(ring, state["ring"])
    from_T = torch.arange(ring.cursor - into.size, ring.cursor + ring.keeps_last) % ring.num_rows
    rows, envs = slice(into.size), slice(begin, begin + span.stop - span.start)

    def grid(ring: Ring, leaf: Tensor) -> Tensor:
        return leaf[: ring.num_places].view(-1 if ring.num_envs else ring.num_rows, ring.num_envs, *leaf.shape[1:])

    def copy(old: Tensor, new: Tensor) -> None:
        grid(into, new)[rows, envs] = grid(ring, old)[from_T[rows], span]

    def copy_obs(old: Tensor, new: Tensor) -> None:  # the one after the newest row may replace the oldest one
        newest_T = torch.arange(len(from_T))[-into.num_rows :]
        grid(into, new)[newest_T % into.num_rows, envs] = grid(ring, old)[from_T[newest_T], span]

    tree_map(copy, {key: column for key, column in ring.columns.items() if key != "obs"}, into.columns)
    tree_map(copy_obs, ring.columns.get("obs", {}), into.columns.get("obs"))
    copy(ring.episode_step, into.episode_step)
    slot_TN = grid(ring, ring.slot)[from_T[rows], span]
    has_TN = slot_TN >= 0
    if has_TN.any():
        obs = tree_map(lambda table: table[slot_TN[has_TN]], ring.finals.obs)
        grid(into, into.slot)[rows, envs][has_TN] = into.finals.put(obs)
    priority = state["sampler"].get("priority")
    return None if priority is None else grid(ring, priority)[from_T[rows], span]


def first_places(column: Tensor, number: int) -> Tensor:
    """Return the first `number` places of a column as a tensor that shares its memory and whose storage ends there.

    A plain slice would not do, because `torch.save` writes the whole storage of a view.
    """
    shape = (number, *column.shape[1:])
    begin = column.storage_offset() * column.element_size()
    storage = column.untyped_storage()[begin : begin + math.prod(shape) * column.element_size()]
    return column.new_empty(0).set_(storage, 0, shape)  # type: ignore[call-overload]  # torch's stubs lack this form


def describe(columns: dict[str, Any]) -> dict[str, str]:
    """Return the dtype and the shape of one entry of each column, by the column's dotted name."""
    return {key: f"{leaf.dtype} {list(leaf.shape[1:])}" for key, leaf in dotted_items(columns, "column ")}


def compress_frames(frames: Tensor, num_envs: int) -> Tensor | dict[str, Any]:
    """Return frames `[T N, ...]` in compressed form, or unchanged if they are not image bytes or hardly shrink.

    Successive frames of an environment differ in few pixels. So each is replaced by its bitwise difference from the
    frame before, which is mostly zero. The compressed form has `chunks` (uint8 tensors) and `shape` (of a row).
    """
    if frames.dtype != torch.uint8 or frames.ndim < 3 or not len(frames):
        return frames
    row_T = frames.unflatten(0, (-1, num_envs))
    rows = max(1, CHUNK // row_T[0].nbytes)
    chunks: list[Tensor] = []
    for part in row_T.split(rows):
        array = part.numpy(force=True)
        delta = np.concatenate([array[:1], array[1:] ^ array[:-1]])
        chunk = zlib.compress(delta.tobytes(), LEVEL)
        if not chunks and WORTHWHILE * len(chunk) > array.nbytes:
            return frames
        chunks.append(torch.frombuffer(bytearray(chunk), dtype=torch.uint8))
    return {"chunks": chunks, "shape": list(row_T.shape[1:])}


def decompress_frames(frames: Tensor | dict[str, Any], into: Tensor) -> None:
    """Write what `compress_frames` returned into the first places of `into`, `[T N, ...]`."""
    if isinstance(frames, Tensor):
        into[: len(frames)].copy_(frames)
        return
    shape, place = frames["shape"], 0
    for chunk in frames["chunks"]:
        delta = np.frombuffer(zlib.decompress(chunk.numpy().tobytes()), np.uint8).reshape(-1, *shape)
        array = np.bitwise_xor.accumulate(delta, axis=0).reshape(-1, *shape[1:])
        into[place : place + len(array)].copy_(torch.from_numpy(array))
        place += len(array)

"""Deals the environments of a saved run to another number of ranks.

A run consists of streams, one for each collecting environment of all ranks: its running episode, its column of the
replay buffer with priorities, what a recurrent policy remembers of it. A rank that resumes gets whole streams, in
order. What belongs to no stream is dealt too: each rank keeps the random generators of the old rank of its number, and
ranks without one get new generators.

The streams of a rank whose part of the checkpoint is lost begin anew: new episodes, with new seeds. Their columns of
the replay buffer are copies of other streams' columns, so that all stay equally long, until new steps replace them.

Shapes: E streams, N environments of a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ding_lite.config.division import share
from ding_lite.envs.seeded_env import derive_seeds
from ding_lite.utils.checkpoint.file import CheckpointError
from ding_lite.utils.seed import random_state, set_seed
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.state import deal_replay_states

States = Sequence[dict[str, Any] | None]  # local states of all old ranks; None: lost
Span = tuple[dict[str, Any], slice]  # the local state of an old rank, and those of its environments that are taken


def deal(states: States, rank: int, ranks: int, num_streams: int, num_rows: int | None, seed: int) -> dict[str, Any]:
    """Return the local state of a rank from those of all ranks that saved a checkpoint.

    Args:
        states: what `RunKeeper` saved on each rank, in order.
        rank: the new rank.
        ranks: their number.
        num_streams: E of this run; it has no meaning if no environment is played.
        num_rows: rows of its replay buffer, or None.
        seed: the config's seed.

    Raises:
        CheckpointError: this run does not have as many environments as the saved one, or their attributes were changed
            differently on different ranks.
    """
    found = [state for state in states if state is not None]
    saved = _count_streams(states, num_streams)
    if not any(saved):
        num_streams = 0
    _check_number(saved, ranks, num_streams)
    streams = share(num_streams, rank, ranks)
    spans = _spans(states, saved, streams)
    seeds = derive_seeds(seed, rank, "dealt", len(states), n=3)
    own = states[rank] if rank < len(states) else None
    dealt: dict[str, Any] = {"random": own["random"] if own else _new_random_state(seeds[0])}
    for name in ("learner", "reward_model"):
        if name in found[0]:
            dealt[name] = {"means": _sum_means([state[name]["means"] for state in states[rank::ranks] if state])}
    remembered = [
        tree_map(lambda leaf, span=span: None if leaf is None else leaf[span], state["collect_mode"])
        for state, span in spans
    ]
    dealt["collect_mode"] = _join(remembered, [span.stop - span.start for _, span in spans])
    dealt["collector"] = {}
    if num_streams:
        draws = (own or found[0])["collector"]["env"]["draws"]
        new = _new_generator(seeds[1])
        dealt["collector"]["env"] = _deal_envs(spans) | {"draws": draws if own else [new for _ in draws]}
        if lost := [n - streams.start for n in lost_streams(states, num_streams) if n in streams]:
            dealt["lost"] = lost
            _begin_anew(dealt["collector"]["env"], lost, derive_seeds(seed, rank, "lost", n=len(streams)))
    if num_rows is not None and "replay" in found[0]:
        parts = [(state["replay"], span) for state, span in spans]
        rng = own["replay"]["sampler"]["rng"] if own else _new_generator(seeds[2])
        dealt["replay"] = deal_replay_states(parts, num_rows, rng)
    return dealt


def lost_streams(states: States, num_streams: int) -> list[int]:
    """Return which of E streams belonged to ranks whose parts are lost."""
    owners = np.repeat(np.arange(len(states)), _count_streams(states, num_streams))
    return [stream for stream, owner in enumerate(owners.tolist()) if states[owner] is None]


def _count_streams(states: States, num_streams: int) -> list[int]:
    """Return the number of streams of each old rank; those of lost parts had what the others lack, in equal parts."""
    saved = [len(state["collector"].get("env", {}).get("seed", ())) if state else None for state in states]
    lost = saved.count(None)
    missing = max(num_streams - sum(number or 0 for number in saved), 0) if any(saved) else 0
    shares = iter([len(share(missing, part, lost)) for part in range(lost)])
    return [next(shares) if number is None else number for number in saved]


def _begin_anew(env: dict[str, Any], lost: list[int], seeds: list[int]) -> None:
    """Change the state of some environments in place, so that they begin new episodes when it is loaded."""
    for number in lost:
        env["seed"][number] = seeds[number]
        env["length"][number] = -1  # no number of actions


def _check_number(saved: list[int], ranks: int, num_streams: int) -> None:
    total = sum(saved)
    if num_streams == total:
        return
    advice = f"set env.collector_env_num={total}" + " and policy.divide=True" * (ranks > 1)
    if ranks > 1 and total % ranks == 0:
        advice = f"set env.collector_env_num={total // ranks}, or {total} and policy.divide=True"
    raise CheckpointError(
        f"The checkpoint has {total} collecting environments on {len(saved)} rank(s), and this run has "
        f"{num_streams} on {ranks}: {advice}."
    )


def _spans(states: States, saved: list[int], streams: range) -> list[Span]:
    """Return the old ranks whose environments are among `streams`, and which of their environments are.

    An environment of another rank takes the place of each one that is lost.
    """
    known = [(state, n) for state, number in zip(states, saved, strict=True) if state for n in range(number)]
    spans: list[Span] = []
    first = 0
    for state, number in zip(states, saved, strict=True):
        begin, end = max(streams.start - first, 0), min(streams.stop - first, number)
        if state and begin < end:
            spans.append((state, slice(begin, end)))
        elif state is None:
            others = [known[(first + n) % len(known)] for n in range(begin, end)]
            spans += [(other, slice(n, n + 1)) for other, n in others]
        first += number
    return spans or [(next(state for state in states if state), slice(0, 0))]


def _join(trees: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Return the nested dicts of `[N, ...]` tensors of several ranks as one; None counts as zeros if not all are."""
    known = [tree for tree in trees if tree is not None]
    if not known:
        return None
    if isinstance(known[0], dict):
        return {key: _join([None if tree is None else tree.get(key) for tree in trees], sizes) for key in known[0]}
    zeros = [known[0].new_zeros(size, *known[0].shape[1:]) for size in sizes]
    return torch.cat([zero if tree is None else tree for tree, zero in zip(trees, zeros, strict=True)])


def _deal_envs(spans: Sequence[Span]) -> dict[str, Any]:
    """Return the state of the chosen environments, without `draws`; see `RestorableVectorEnv.state_dict`."""
    states = [state["collector"]["env"] for state, _ in spans]
    takes = [span for _, span in spans]
    arrays = [
        tree_map(lambda leaf, span=span: leaf[span], {key: state[key] for key in ("seed", "episode", "length", "obs")})
        for state, span in zip(states, takes, strict=True)
    ]
    times = [[change[:2] for change in state["changes"]] for state in states]
    if any(each != times[0] for each in times):
        raise CheckpointError(
            "Attributes of environments were set at different times on different ranks: resume with as many ranks."
        )
    return {
        **tree_map(lambda *leaves: torch.cat(leaves), *arrays),
        "actions": [actions for state, span in zip(states, takes, strict=True) for actions in state["actions"][span]],
        "attributes": {
            name: _join_values([state["attributes"][name] for state in states], takes)
            for name in states[0]["attributes"]
        },
        "changes": [
            [*changes[0][:2], _join_values([change[2] for change in changes], takes)]
            for changes in zip(*(state["changes"] for state in states), strict=True)
        ],
    }


def _join_values(values: Sequence[Any], takes: Sequence[slice]) -> Any:
    """Return one value of an attribute for all environments, or a list with one for each."""
    if not any(isinstance(value, list) for value in values):
        return values[0]
    return [each for value, span in zip(values, takes, strict=True) for each in value[span]]


def _sum_means(sums: Sequence[dict[str, list[float]]]) -> dict[str, list[float]]:
    """Return the sums of the figures of several ranks, see `RunningMeans`."""
    columns: dict[str, list[list[float]]] = {}
    for name, values in (item for each in sums for item in each.items()):
        columns.setdefault(name, []).append(values)
    return {name: [sum(column) for column in zip(*values, strict=True)] for name, values in columns.items()}


def _new_random_state(seed: int) -> dict[str, Any]:
    """Seed this process, whose random state is replaced afterwards, and return its random state."""
    set_seed(seed)
    return random_state()


def _new_generator(seed: int) -> dict[str, Any]:
    return dict(np.random.default_rng(seed).bit_generator.state)

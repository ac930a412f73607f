"""Deals the environments of a saved run to another number of ranks.

A run consists of streams, one for each collecting environment of all ranks: its running episode, its column of the
replay buffer with priorities, what a recurrent policy remembers of it. If actors play, a stream is an actor with all
its environments, its part of the replay buffer, and the rollout that is on its way. A rank that resumes gets whole
streams, in order. What belongs to no stream is dealt too: each rank keeps the random generators of the old rank of its
number, and ranks without one get new generators.

The streams of a rank whose part of the checkpoint is lost begin anew: new episodes, with new seeds. Their columns of
the replay buffer are copies of other streams' columns, so that all stay equally long, until new steps replace them.

Shapes: E streams, N environments of a rank.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ding_lite.utils.checkpoint.file import CheckpointError
from ding_lite.utils.ranks.launch_environment import share
from ding_lite.utils.registry import LEARNING_PARTS
from ding_lite.utils.seed import derive_seeds, random_state, set_seed
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.state import deal_actors, deal_replay_states

# Local states of old ranks; None: lost, or not needed here.
States = Sequence[dict[str, Any] | None]
Span = tuple[dict[str, Any], slice]  # the local state of an old rank, and those of its environments that are taken


class Stream(NamedTuple):
    """A stream of a saved run: its old rank, its number there, and whether it begins anew."""

    part: int
    number: int
    lost: bool = False


def find_streams(parts: int, lost: Collection[int], num_streams: int) -> list[Stream]:
    """Return all streams of a run that `parts` ranks saved, in order, as `share` deals them.

    Streams of `lost` ranks are copies of others. There are none if all are lost.
    """
    streams = [Stream(part, n) for part in range(parts) for n in range(len(share(num_streams, part, parts)))]
    known = [stream for stream in streams if stream.part not in lost]
    copies = itertools.cycle(stream._replace(lost=True) for stream in known)
    return [next(copies) if stream.part in lost else stream for stream in streams] if known else []


def find_parts(rank: int, ranks: int, parts: int, lost: Collection[int], num_streams: int) -> list[int]:
    """Return the old ranks whose local states `deal` reads for a rank; the arguments are as for `deal`."""
    streams = find_streams(parts, lost, num_streams)
    mine = share(len(streams), rank, ranks)
    wanted = {rank, *share(parts, rank, ranks), *(stream.part for stream in streams[mine.start : mine.stop])}
    found = [part for part in range(parts) if part not in lost]
    return [part for part in found if part in wanted] or found[:1]


def check_streams(counts: Mapping[int, int], parts: int, num_streams: int, ranks: int) -> None:
    """Raise `CheckpointError` if old ranks did not have the streams that `find_streams` expects.

    Args:
        counts: numbers of streams by old ranks, see `count_streams`; without those of lost ranks.
        parts: how many ranks saved the checkpoint.
        num_streams: E of this run.
        ranks: their number.
    """
    if any(counts.values()) and any(n != len(share(num_streams, part, parts)) for part, n in counts.items()):
        saved = sum(counts.values()) + (parts - len(counts)) * max(counts.values())
        raise CheckpointError(_describe_difference(saved, parts, num_streams, ranks))


def deal(
    states: States,
    lost: Collection[int],
    rank: int,
    ranks: int,
    num_streams: int,
    num_rows: int | None,
    seed: int,
    name: str,
) -> dict[str, Any]:
    """Return the local state of a rank from those of the ranks that saved a checkpoint.

    Args:
        states: what `RunKeeper` saved on each rank, in order; at least those of `find_parts`.
        lost: the old ranks whose states are lost.
        rank: the new rank.
        ranks: their number.
        num_streams: E of this run; it has no meaning if no environment is played.
        num_rows: rows of its replay buffer, or of an actor's part of it, or None.
        seed: the config's seed.
        name: the checkpoint's name. New generators depend on it, so that a rank that comes twice repeats nothing.
    """
    found = [state for state in states if state is not None]
    streams = find_streams(len(states), lost, num_streams) if count_streams(found[0]) else []
    part = share(len(streams), rank, ranks)
    mine = streams[part.start : part.stop]
    actors = "actors" in found[0]["collector"]
    if actors:
        spans = [_envs_of(_state_of(states, actor), actor.number) for actor in mine]
    else:
        spans = _join_spans(states, mine) or [(found[0], slice(0, 0))]
    seeds = derive_seeds(seed, rank, "dealt", name, n=3)
    own = states[rank] if rank < len(states) else None
    dealt: dict[str, Any] = {"random": own["random"] if own else _new_random_state(seeds[0])}
    for key in ("learner", *LEARNING_PARTS):
        if key in found[0]:
            own_share = [states[part] for part in share(len(states), rank, ranks)]
            dealt[key] = {"means": _sum_means([state[key]["means"] for state in own_share if state])}
    dealt["collect_mode"] = _deal_memory(spans, "collect_mode")
    for key in (key for key in LEARNING_PARTS if key in dealt):
        dealt[key] |= _deal_memory(spans, key) or {}
    dealt["collector"] = {}
    if actors:
        own_actors = [_deal_actor(_state_of(states, actor), actor) for actor in mine]
        dealt["collector"] = found[0]["collector"] | {"actors": own_actors}
    elif streams:
        draws = (own or found[0])["collector"]["env"]["draws"]
        new = _new_generator(seeds[1])
        dealt["collector"]["env"] = _deal_envs(spans) | {"draws": draws if own else [new for _ in draws]}
        if lost := [number for number, stream in enumerate(mine) if stream.lost]:
            dealt["lost"] = lost
            env = dealt["collector"]["env"]
            env["seed"][lost] = torch.tensor(derive_seeds(seed, rank, "lost", name, n=len(lost)))
            env["length"][lost] = -1  # no number of actions, so that new episodes begin
    if num_rows is not None and "replay" in found[0]:
        rng = own["replay"]["sampler"]["rng"] if own else _new_generator(seeds[2])
        replays = [(state["replay"], span) for state, span in spans]
        dealt["replay"] = (deal_actors if actors else deal_replay_states)(replays, num_rows, rng)
    return dealt


def count_streams(state: dict[str, Any]) -> int:
    """Return how many streams a local state has."""
    collector = state["collector"]
    return len(collector["actors"] if "actors" in collector else collector.get("env", {}).get("seed", ()))


def _state_of(states: States, stream: Stream) -> dict[str, Any]:
    state = states[stream.part]
    assert state is not None, "find_parts has named it"
    return state


def _envs_of(state: dict[str, Any], number: int) -> Span:
    """Return the environments of an actor among those of its rank, which counts those of one actor after another."""
    num_envs = state["collector"]["num_envs"]
    return state, slice(number * num_envs, (number + 1) * num_envs)


def _deal_actor(state: dict[str, Any], actor: Stream) -> dict[str, Any]:
    """Return the state of an actor, see `ActorCollector`; without its environments and its rollout if it is lost."""
    own = state["collector"]["actors"][actor.number]
    return own | ({"state": None, "rollout": None} if actor.lost else {})


def _deal_memory(spans: Sequence[Span], key: str) -> Any:
    """Return what a part of the run remembers of the running episodes of the chosen environments."""
    trees = [
        tree_map(
            lambda leaf, span=span: None if leaf is None else _take(leaf, span),
            {name: part for name, part in state[key].items() if name not in ("means", "own")},
        )
        for state, span in spans
    ]
    return _join(trees, [span.stop - span.start for _, span in spans])


def _take(leaf: torch.Tensor, span: slice) -> torch.Tensor:
    """Return rows of a tensor; those that it does not have yet are zeros."""
    own = leaf[span]
    return torch.cat([own, own.new_zeros(span.stop - span.start - len(own), *own.shape[1:])])


def _describe_difference(saved: int, before: int, wanted: int, ranks: int) -> str:
    advice = f"set env.collector_env_num={saved}" + " and policy.divide=True" * (ranks > 1)
    if ranks > 1 and saved % ranks == 0:
        advice = f"set env.collector_env_num={saved // ranks}, or {saved} and policy.divide=True"
    found = f"The checkpoint has {saved} collecting environments on {before} rank(s)"
    return f"{found}, and this run has {wanted} on {ranks}: {advice}."


def _join_spans(states: States, streams: Sequence[Stream]) -> list[Span]:
    """Return streams as spans, each of successive environments of one rank."""
    spans: list[Span] = []
    for stream in streams:
        state, n = _state_of(states, stream), stream.number
        last, place = spans[-1] if spans else (None, slice(0))
        if last is state and place.stop == n:
            spans[-1] = (state, slice(place.start, n + 1))
        else:
            spans.append((state, slice(n, n + 1)))
    return spans


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

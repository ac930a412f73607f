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

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ding_lite.config.shapes import share
from ding_lite.utils.checkpoint.file import CheckpointError
from ding_lite.utils.seed import derive_seeds, random_state, set_seed
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.state import deal_actors, deal_replay_states

States = Sequence[dict[str, Any] | None]  # local states of all old ranks; None: lost
Span = tuple[dict[str, Any], slice]  # the local state of an old rank, and those of its environments that are taken


class Stream(NamedTuple):
    """A stream of a saved run: the local state of its rank, its number there, and whether it begins anew."""

    state: dict[str, Any]
    number: int
    lost: bool = False


def deal(
    states: States, rank: int, ranks: int, num_streams: int, num_rows: int | None, seed: int, name: str
) -> dict[str, Any]:
    """Return the local state of a rank from those of all ranks that saved a checkpoint.

    Args:
        states: what `RunKeeper` saved on each rank, in order.
        rank: the new rank.
        ranks: their number.
        num_streams: E of this run; it has no meaning if no environment is played.
        num_rows: rows of its replay buffer, or of an actor's part of it, or None.
        seed: the config's seed.
        name: the checkpoint's name. New generators depend on it, so that a rank that comes twice repeats nothing.
    """
    found = [state for state in states if state is not None]
    streams = find_streams(states, num_streams)
    if streams and len(streams) != num_streams:
        raise CheckpointError(_describe_difference(len(streams), len(states), num_streams, ranks))
    part = share(len(streams), rank, ranks)
    mine = streams[part.start : part.stop]
    actors = "actors" in found[0]["collector"]
    spans = [_envs_of(actor) for actor in mine] if actors else _join_spans(mine) or [(found[0], slice(0, 0))]
    seeds = derive_seeds(seed, rank, "dealt", name, n=3)
    own = states[rank] if rank < len(states) else None
    dealt: dict[str, Any] = {"random": own["random"] if own else _new_random_state(seeds[0])}
    for key in ("learner", "reward_model"):
        if key in found[0]:
            dealt[key] = {"means": _sum_means([state[key]["means"] for state in states[rank::ranks] if state])}
    remembered = [
        tree_map(lambda leaf, span=span: None if leaf is None else _take(leaf, span), state["collect_mode"])
        for state, span in spans
    ]
    dealt["collect_mode"] = _join(remembered, [span.stop - span.start for _, span in spans])
    dealt["collector"] = {}
    if actors:
        dealt["collector"] = found[0]["collector"] | {"actors": [_deal_actor(actor) for actor in mine]}
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


def find_streams(states: States, num_streams: int) -> list[Stream]:
    """Return the streams of all old ranks, in order.

    Those of lost parts are what is missing of E, in equal parts; environments of other ranks take their places.
    """
    saved = [_count_streams(state["collector"]) if state else 0 for state in states]
    known = [Stream(state, n) for state, number in zip(states, saved, strict=True) if state for n in range(number)]
    missing, parts = max(num_streams - len(known), 0) if known else 0, sum(state is None for state in states)
    gaps = iter([share(missing, part, parts) for part in range(parts)])
    streams: list[Stream] = []
    for state, number in zip(states, saved, strict=True):
        if state is None:
            streams += [known[place % len(known)]._replace(lost=True) for place in next(gaps)]
        else:
            streams += [Stream(state, n) for n in range(number)]
    return streams


def _count_streams(collector: dict[str, Any]) -> int:
    return len(collector["actors"] if "actors" in collector else collector.get("env", {}).get("seed", ()))


def _envs_of(actor: Stream) -> Span:
    """Return the environments of an actor among those of its rank, which counts those of one actor after another."""
    num_envs = actor.state["collector"]["num_envs"]
    return actor.state, slice(actor.number * num_envs, (actor.number + 1) * num_envs)


def _deal_actor(actor: Stream) -> dict[str, Any]:
    """Return the state of an actor, see `ActorCollector`; without its environments and its rollout if it is lost."""
    own = actor.state["collector"]["actors"][actor.number]
    return own | ({"state": None, "rollout": None} if actor.lost else {})


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


def _join_spans(streams: Sequence[Stream]) -> list[Span]:
    """Return streams as spans, each of successive environments of one rank."""
    spans: list[Span] = []
    for state, n, _ in streams:
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

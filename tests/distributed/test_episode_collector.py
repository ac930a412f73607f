"""Two real processes whose episodes differ in length: they stay together all the same."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from ding_lite.utils.ranks.collectives import get_rank
from ding_lite.utils.ranks.machine_group import machine_group
from ding_lite.worker import EpisodeCollector
from tests.distributed.on_ranks import call_on_ranks
from tests.worker.games import REWARD, Acting, CountingGame, game_env

LENGTHS = (2, 300)  # steps of an episode, by rank
COLLECTIVES = ("all_reduce", "all_gather", "all_gather_object", "broadcast", "broadcast_object_list", "barrier")


def count_collectives(calls: list[str]) -> None:
    """Note the name of every collective that is called from now on."""

    def noted(name: str) -> Any:
        real = getattr(dist, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return real(*args, **kwargs)

        return call

    for name in COLLECTIVES:
        setattr(dist, name, noted(name))


def collect() -> dict[str, Any]:
    """Collect three times on this rank, which is asked to end before the last one if it is rank 1."""
    calls: list[str] = []
    meetings: list[int] = []
    mode = Acting(lambda obs, **kwargs: {"action": torch.zeros(2, dtype=torch.int64)})
    rank, asked = get_rank(), False
    env = game_env(CountingGame(LENGTHS[rank]), CountingGame(LENGTHS[rank]))
    collector = EpisodeCollector(env, mode, 4, [1, 2], lambda: asked)
    met = machine_group().met
    count_collectives(calls)
    rows = []
    for number in range(3):
        asked = number == 2 and rank == 1
        block, figures = collector.collect()
        figures.pop("duration")
        meetings.append(machine_group().met - met)
        met = machine_group().met
        rows.append(figures | {"rows": len(block["reward"]), "interrupted": collector.interrupted})
    return {"rows": rows, "calls": calls, "meetings": meetings, "state": collector.state_dict()}


def test_each_collect_is_one_collective_whatever_the_lengths() -> None:
    ranks = call_on_ranks(collect)
    assert [rank["meetings"] for rank in ranks] == [[1, 1, 1]] * 2
    assert [rank["calls"] for rank in ranks] == [[], []]
    # Two episodes in each of two environments of each rank.
    steps = 2 * 2 * (2 + 300)
    expected = {"env_step": steps, "episode": 8, "return": REWARD * steps, "length": steps}
    expected |= {"interrupt": 0}
    for rank, length in zip(ranks, LENGTHS, strict=True):
        assert rank["rows"][0] == expected | {"rows": 2 * length, "interrupted": False}
        assert rank["rows"][1] == rank["rows"][0]
        assert rank["rows"][2] == expected | {"rows": 2 * length, "interrupted": True, "interrupt": 1}
        assert rank["state"] == {"envstep": 3 * steps, "episode_count": 24, "attributes": {}}

"""What a collect of whole episodes returns: each environment's share from the start, and which steps belong to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ding_lite.envs import episode_monitor
from ding_lite.rl_utils.policy_gradient import first_episodes
from ding_lite.worker import EpisodeCollector
from tests.worker.games import REWARD, Acting, CountingGame, game_env


def collector_of(
    *games: CountingGame, n_episode: int, interrupt: Callable[[], bool] = lambda: False, **options: Any
) -> EpisodeCollector:
    """Return a collector with seeds 100, 200 ...; its policy's actions go through 0, 1, 2, call by call."""
    calls: list[int] = []

    def forward(obs: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        calls.append(len(calls))
        return {"action": torch.full((len(games),), calls[-1] % 3)}

    seeds = [100 * (n + 1) for n in range(len(games))]
    env = game_env(*games, bounded=True, **options)
    return EpisodeCollector(env, Acting(forward), n_episode, seeds, interrupt)


def resets(game: CountingGame) -> list[int]:
    return [entry[1] for entry in game.log if entry[0] == "reset"]


def counted(block: dict[str, Any]) -> torch.Tensor:
    """Return which steps count, `[T, N]`."""
    return first_episodes(block["final_index"], *block["reward"].shape)


def test_each_environment_plays_its_share_and_the_rest_does_not_count() -> None:
    # Two episodes each: 4 steps of the first environment, 10 of the second, which decides T.
    collector = collector_of(CountingGame(2), CountingGame(5, "truncated"), n_episode=4)
    block, figures = collector.collect()
    assert counted(block).T.tolist() == [[True] * 4 + [False] * 6, [True] * 10]
    assert block["episode_step"].T.tolist() == [[0, 1] * 5, [0, 1, 2, 3, 4] * 2]
    assert block["obs"][:, 1, 0].tolist() == [200] * 5 + [201] * 5
    assert block["action"][:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert figures["env_step"] == 20
    assert (figures["episode"], figures["length"], figures["return"]) == (4, 2 * 2 + 2 * 5, REWARD * (2 * 2 + 2 * 5))
    assert (collector.envstep, collector.episode_count) == (20, 4)


def test_every_collect_begins_with_new_episodes_everywhere() -> None:
    games = [CountingGame(3), CountingGame(5)]
    collector = collector_of(*games, n_episode=2)
    starts = [collector.collect()[0]["obs"][0].tolist() for _ in range(3)]
    # The first game ends once more, and is left after 2 of 3 steps, in each collect; the second ends with the collect.
    assert starts == [[[100, 0], [200, 0]], [[102, 0], [202, 0]], [[104, 0], [204, 0]]]


def test_episodes_that_just_began_are_not_thrown_away() -> None:
    game = CountingGame(4)
    collector = collector_of(game, n_episode=2)
    assert resets(game)[-1] == 100
    for _ in range(2):
        collector.collect()
    assert resets(game)[-5:] == [100, 101, 102, 103, 104]


def test_episodes_may_be_longer_than_any_before() -> None:
    game = CountingGame(3)
    collector = collector_of(game, CountingGame(2), n_episode=2)
    for length in (3, 150, 7, 700):
        game.length = length
        block, figures = collector.collect()
        assert block["obs"][:, 0, 1].tolist() == list(range(length))
        assert block["action"][1:, 0].tolist() == [(first + 1) % 3 for first in block["action"][:-1, 0].tolist()]
        assert counted(block).sum(0).tolist() == [length, 2]
        assert figures["env_step"] == 2 * length
        assert figures["length"] == length + 2


@pytest.mark.parametrize(("limit", "longest"), [(None, 60), (0, 60), (100, 100)])
def test_an_endless_episode_is_reported_and_cut(
    limit: int | None, longest: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(episode_monitor, "LONGEST_EPISODE", 60)
    monkeypatch.setattr(episode_monitor, "LONG_EPISODE", 40)
    endless = CountingGame(10**9)
    collector = collector_of(endless, CountingGame(7), n_episode=4, max_episode_steps=limit)
    block, figures = collector.collect()
    assert counted(block).sum(0).tolist() == [2 * longest, 2 * 7]
    assert block["traj_flag"][:, 0].nonzero().flatten().tolist() == [longest - 1, 2 * longest - 1]
    assert not block["done"][:, 0].any()
    last = [obs.tolist() for obs, place in zip(block["final_obs"], block["final_index"], strict=True) if place % 2 == 0]
    assert last == [[100, longest], [101, longest]]
    assert (figures["episode"], figures["length"]) == (4, 2 * longest + 2 * 7)
    told = "Environment 'gymnasium': an episode has not ended after 40 env steps; it is cut after 60. Set env.max_"
    assert caplog.messages == ([] if limit else [f"{told}episode_steps."] * 2)


def test_a_signal_ends_a_collect_whose_episodes_may_never_end_but_no_other() -> None:
    for limit in (None, 50):
        endless, short = CountingGame(10**9), CountingGame(7)
        asked = lambda endless=endless: len(endless.log) > 20  # noqa: E731  # a reset and 20 steps
        collector = collector_of(endless, short, n_episode=6, interrupt=asked, max_episode_steps=limit)
        block, figures = collector.collect()
        # After 20 steps a signal is seen; in step 21, the first episode and the third one of the other game end.
        assert counted(block).sum(0).tolist() == ([21, 7] if limit is None else [150, 21])
        assert (figures["episode"], figures["length"]) == ((2, 28) if limit is None else (6, 171))
        assert collector.interrupted

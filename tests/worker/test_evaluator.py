"""Evaluation counts episodes fairly, judges true returns, and is the same in every run."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium.vector import VectorEnv

from ding_lite.envs import ENV_DEFAULTS, create_vector_env, derive_seeds, episode_monitor
from ding_lite.policy import Policy
from ding_lite.worker import Evaluator
from ding_lite.worker import evaluator as evaluator_module
from tests.worker.failing import DyingGame
from tests.worker.games import REWARD, CountingGame, game_env


class Zeros:
    """A policy that always plays action 0."""

    def act(self, obs: Any, explore: bool = True) -> dict[str, Any]:
        return {"action": torch.zeros(len(obs), dtype=torch.int64)}

    def reset(self, env_id: np.ndarray | None = None, explore: bool = True) -> None:
        pass

    def see_reward(self, reward: np.ndarray, explore: bool = True) -> None:
        assert not explore

    def evaluating(self) -> AbstractContextManager[None]:
        return nullcontext()


def evaluator_in(env: VectorEnv, n_episode: int, stop_value: float | None = None, **options: Any) -> Evaluator:
    return Evaluator(env, cast(Policy, Zeros()), n_episode, 10, stop_value, 0, **options)


def evaluator_of(*games: CountingGame, n_episode: int, stop_value: float | None = None, **options: Any) -> Evaluator:
    own = {key: options.pop(key) for key in ("interrupt", "on_progress", "n_confirm") if key in options}
    return evaluator_in(game_env(*games, training=False, **options), n_episode, stop_value, **own)


def test_each_environment_plays_its_share_however_long_its_episodes_are() -> None:
    # The first eight episodes to end would be 7 of length 1 and 1 of length 8.
    evaluator = evaluator_of(CountingGame(1), CountingGame(8), n_episode=8)
    _, info = evaluator.eval(0)
    assert sorted(info["returns"]) == [REWARD * 1] * 4 + [REWARD * 8] * 4
    assert info["return_mean"] == pytest.approx(REWARD * 4.5)
    assert info["return_std"] == pytest.approx(REWARD * 3.5)
    assert (info["return_min"], info["return_max"]) == (REWARD * 1, REWARD * 8)
    assert info["length_mean"] == pytest.approx(4.5)


def test_returns_are_true_and_lives_do_not_end_an_episode() -> None:
    evaluator = evaluator_of(CountingGame(6, lives_at=(2, 4)), n_episode=1, clip_rewards=True, episodic_life=True)
    assert evaluator.eval(0)[1]["returns"] == [6 * REWARD]


def test_seeds_are_new_at_every_evaluation_and_the_same_in_every_run() -> None:
    def seeds_of_two_evaluations() -> list[int]:
        games = [CountingGame(3), CountingGame(3)]
        evaluator = evaluator_of(*games, n_episode=2)
        before = [len(game.log) for game in games]
        seeds = []
        for train_iter in (0, 10):
            evaluator.eval(train_iter)
            for game, old in zip(games, before, strict=True):
                seeds.append(next(entry[1] for entry in game.log[old:] if entry[0] == "reset"))
            before = [len(game.log) for game in games]
        return seeds

    first = seeds_of_two_evaluations()
    assert len(set(first)) == 4
    assert first == seeds_of_two_evaluations()
    assert first[:2] == derive_seeds(0, "evaluate", 0, n=2)


def test_it_is_due_at_once_and_then_by_frequency() -> None:
    evaluator = evaluator_of(CountingGame(2), n_episode=1)
    assert evaluator.should_eval(0)
    evaluator.eval(0)
    assert [evaluator.should_eval(i) for i in (0, 9, 10, 25)] == [False, False, True, True]
    evaluator.eval(25)
    assert [evaluator.should_eval(i) for i in (30, 34, 35)] == [False, False, True]


@pytest.mark.parametrize(("stop_value", "stop"), [(None, False), (REWARD * 4, True), (REWARD * 4 + 0.1, False)])
def test_the_stop_value_is_reached_by_the_mean(stop_value: float | None, stop: bool) -> None:
    evaluator = evaluator_of(CountingGame(3), CountingGame(5), n_episode=2, stop_value=stop_value)
    assert evaluator.eval(0)[0] is stop


@pytest.mark.parametrize(
    ("lengths", "returns", "stop"),
    [
        ((4, 4), [4, 4, 4, 4], True),  # confirmed
        ((4, 3), [4, 4, 3, 3], False),  # the mean of all is 3.5
        ((3, 9), [3, 3], False),  # no reason to confirm
    ],
)
def test_a_reached_stop_value_is_confirmed(lengths: tuple[int, int], returns: list[int], stop: bool) -> None:
    games = [CountingGame(lengths[0]), CountingGame(lengths[0])]
    ended = iter(range(100))

    def interrupt() -> bool:  # asked before every step: the first episodes have ended after lengths[0] of them
        if next(ended) == lengths[0]:
            for game in games:
                game.length = lengths[1]
        return False

    evaluator = evaluator_of(*games, n_episode=2, stop_value=4 * REWARD, n_confirm=2, interrupt=interrupt)
    stopped, info = evaluator.eval(0)
    assert (info["returns"], stopped) == ([REWARD * each for each in returns], stop)
    assert evaluator.best_return == info["return_mean"] == pytest.approx(REWARD * np.mean(returns))
    resets = [entry[1] for entry in games[0].log if entry[0] == "reset"]
    assert len(set(resets)) == len(resets), "other seeds than those of the first episodes"


def test_an_interrupted_confirmation_is_no_verdict() -> None:
    steps = iter(range(100))
    options: dict[str, Any] = {"n_confirm": 2, "interrupt": lambda: next(steps) == 25}
    evaluator = evaluator_of(CountingGame(10), n_episode=2, stop_value=-99, **options)
    assert evaluator.eval(7) == (False, {})
    assert evaluator.should_eval(7)
    assert evaluator.eval(7)[1]["returns"] == [10 * REWARD] * 4


def test_the_best_so_far_is_marked() -> None:
    game = CountingGame(4)
    evaluator = evaluator_of(game, n_episode=1)
    marks = []
    for length in (4, 3, 5, 5, 6):
        game.length = length
        marks.append(evaluator.eval(0)[1]["best"])
    assert marks == [True, False, True, False, True]
    assert evaluator.best_return == 6 * REWARD


def test_an_interrupted_evaluation_is_no_verdict_and_is_played_again() -> None:
    steps = iter(range(100))
    game = CountingGame(10)
    evaluator = evaluator_of(game, n_episode=2, stop_value=-99, interrupt=lambda: next(steps) == 15)
    before = evaluator.state_dict()
    assert evaluator.eval(7) == (False, {})
    nothing = {"eval_count": 0, "last_iter": -1, "best_return": -np.inf, "attributes": {}}
    assert evaluator.state_dict() == before == nothing
    assert evaluator.should_eval(7)
    resets = [entry[1] for entry in game.log if entry[0] == "reset"]
    assert evaluator.eval(7)[0]
    again = [entry[1] for entry in game.log if entry[0] == "reset"][len(resets) :]
    assert again[:2] == resets[:2], "the same evaluation, with the same seeds"
    assert evaluator.state_dict() == {"eval_count": 1, "last_iter": 7, "best_return": 10 * REWARD, "attributes": {}}


def test_a_long_evaluation_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[int, int]] = []
    monkeypatch.setattr(evaluator_module, "PROGRESS_PERIOD", 0.0)
    note = lambda done, steps, still: said.append((done, steps))  # noqa: E731
    evaluator_of(CountingGame(2), CountingGame(3), n_episode=4, on_progress=note).eval(0)
    assert said == [(0, 0), (0, 1), (1, 2), (2, 3), (3, 4), (3, 5)]
    monkeypatch.setattr(evaluator_module, "PROGRESS_PERIOD", 60.0)
    evaluator_of(CountingGame(2), n_episode=1, on_progress=note).eval(0)
    assert len(said) == 6


@pytest.mark.parametrize(
    ("env_id", "options", "still"),
    [  # the action is 0: "left", which is blocked by the wall, or a push that ends in a fall
        ("FrozenLake-v1", {"is_slippery": False}, True),
        ("CartPole-v1", {}, False),
    ],
)
def test_an_evaluation_in_which_nothing_happens_says_so(
    env_id: str, options: dict[str, Any], still: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[bool] = []
    monkeypatch.setattr(evaluator_module, "PROGRESS_PERIOD", 0.0)
    builders = [lambda _: gymnasium.make(env_id, **options)] * 2
    with closing(create_vector_env(EasyDict(ENV_DEFAULTS), 2, 0, False, builders=builders)) as env:
        evaluator_in(env, 2, on_progress=lambda done, steps, nothing: said.append(nothing)).eval(0)
    assert any(said) == still
    assert not said[0]


@pytest.mark.parametrize(("limit", "longest"), [(None, 60), (0, 60), (100, 100)])
def test_an_endless_episode_is_reported_and_cut(
    limit: int | None, longest: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(episode_monitor, "LONGEST_EPISODE", 60)
    monkeypatch.setattr(episode_monitor, "LONG_EPISODE", 20)
    endless, short = CountingGame(10**9), CountingGame(7)
    evaluator = evaluator_of(endless, short, n_episode=4, max_episode_steps=limit)
    info = evaluator.eval(0)[1]
    assert sorted(info["returns"]) == [7 * REWARD] * 2 + [longest * REWARD] * 2
    assert [seed for what, seed, *_ in endless.log if what == "reset"][1] == endless.log[0][1] + 1, "the next episode"
    told = [
        f"Environment 'gymnasium': an episode has not ended after {steps} env steps; it is cut after 60. "
        "Set env.max_episode_steps."
        for steps in (20, 40, 60, 20, 40, 60)
    ]
    assert caplog.messages == ([] if limit else told)


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_a_limit_of_the_environments_own_is_kept_without_a_word(
    manager: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(episode_monitor, "LONGEST_EPISODE", 60)
    monkeypatch.setattr(episode_monitor, "LONG_EPISODE", 20)
    spec = gymnasium.envs.registration.EnvSpec("Endless-v0", lambda **_: CountingGame(10**9), max_episode_steps=100)
    cfg = EasyDict(ENV_DEFAULTS | {"manager": ENV_DEFAULTS["manager"] | {"type": manager}})
    with closing(create_vector_env(cfg, 1, 0, False, builders=[lambda _: gymnasium.make(spec)])) as env:
        assert evaluator_in(env, 1).eval(0)[1]["returns"] == [100 * REWARD]
    assert caplog.messages == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_worker_that_dies_truncates_its_episode_and_the_evaluation_goes_on() -> None:
    manager = ENV_DEFAULTS["manager"] | {"type": "subprocess"}
    games = [DyingGame(4, derive_seeds(0, "evaluate", 0, n=1)[0]), CountingGame(7)]
    with closing(game_env(*games, training=False, manager=manager)) as env:
        # two steps were rewarded; the third one failed
        assert sorted(evaluator_in(env, n_episode=2).eval(0)[1]["returns"]) == [2 * REWARD, 7 * REWARD]

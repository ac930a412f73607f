"""What a collect returns: every step that was played, true counts, true ends, and stacks as the policy saw them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, MultiBinary

from ding_lite.envs import ENV_DEFAULTS, create_vector_env
from ding_lite.policy import DQNPolicy
from ding_lite.utils.checkpoint.file import CheckpointError, load_checkpoint, save_checkpoint
from ding_lite.worker import SampleCollector
from tests.worker.failing import DyingGame
from tests.worker.games import Acting, CountingGame, game_env


class Seen(Acting):
    """A player that remembers every observation that it was shown.

    It plays at random and stores rows as DQN does, unless a test replaces `act` or `to_row`.
    """

    def __init__(self, num_actions: int, seed: int = 0) -> None:
        self.observations: list[np.ndarray] = []
        self.kwargs: list[dict[str, Any]] = []
        self.resets: list[Any] = []
        rng = np.random.default_rng(seed)
        base = object.__new__(DQNPolicy)
        base._cfg = EasyDict(learn=dict(ignore_done=False))
        self.to_row = base.to_row  # type: ignore[method-assign]

        def act(obs: np.ndarray, **kwargs: Any) -> dict[str, torch.Tensor]:
            self.observations.append(obs.copy())
            self.kwargs.append(kwargs)
            return {"action": torch.from_numpy(rng.integers(num_actions, size=len(obs)))}

        super().__init__(act)

    def begin_collect(self, envstep: int) -> dict[str, Any]:
        return {"eps": envstep}

    def reset(self, env_id: np.ndarray | None = None) -> None:
        self.resets.append(env_id)


def collector_of(
    *games: CountingGame, n_sample: int, seeds: list[int] | None = None, **options: Any
) -> tuple[SampleCollector, Seen]:
    seen = Seen(3)
    env = game_env(*games, **options)
    seeds = seeds or [100 * (n + 1) for n in range(len(games))]
    interrupt = options.pop("interrupt", lambda: False)
    return SampleCollector(env, seen, n_sample, seeds, interrupt), seen


def copied(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value.clone() for key, value in block.items()}


@pytest.mark.parametrize("stores", [False, True])
def test_random_steps_run_no_network_unless_rows_need_its_output(stores: bool) -> None:
    collector, seen = collector_of(CountingGame(4), n_sample=3)
    collector._stores_outputs = stores
    block, _ = collector.collect(random=True)
    assert len(seen.observations) == 3 * stores
    assert block["action"].shape == (3, 1)


def test_a_block_keeps_the_contract() -> None:
    collector, _ = collector_of(CountingGame(4), CountingGame(5), n_sample=12)
    block, figures = collector.collect()
    expected = {
        "obs": ((6, 2, 2), torch.float64),
        "action": ((6, 2), torch.int64),
        "reward": ((6, 2), torch.float32),
        "done": ((6, 2), torch.bool),
        "traj_flag": ((6, 2), torch.bool),
        "episode_step": ((6, 2), torch.int32),
        "last_obs": ((2, 2), torch.float64),
        "final_obs": ((2, 2), torch.float64),
        "final_index": ((2,), torch.int64),
    }
    assert {key: (tuple(value.shape), value.dtype) for key, value in block.items()} == expected
    assert block["final_index"].tolist() == [3 * 2 + 0, 4 * 2 + 1]  # t * N + n
    assert block["final_obs"].tolist() == [[100, 4], [200, 5]]
    assert block["episode_step"][:, 0].tolist() == [0, 1, 2, 3, 0, 1]
    assert (figures["env_step"], figures["episode"]) == (12, 2)


def test_a_policy_may_change_what_is_stored_of_an_observation() -> None:
    collector, seen = collector_of(CountingGame(40), n_sample=3)
    plain = seen.to_row
    seen.to_row = lambda obs, *rest: plain(obs, *rest) | {"obs": obs + 0.5}  # type: ignore[method-assign]
    block, _ = collector.collect()
    np.testing.assert_array_equal(block["obs"], np.stack(seen.observations) + 0.5)


def test_every_step_played_is_returned_once_and_in_order() -> None:
    games = [CountingGame(3), CountingGame(7, "truncated")]
    collector, seen = collector_of(*games, n_sample=10)
    played: list[list[tuple[Any, ...]]] = [[], []]
    previous_last = None
    for _ in range(6):
        block = copied(collector.collect()[0])
        if previous_last is not None:
            assert torch.equal(block["obs"][0], previous_last)
        previous_last = block["last_obs"]
        for n in range(2):
            rows = zip(block["obs"][:, n].tolist(), block["action"][:, n].tolist(), strict=True)
            played[n] += [(int(seed), int(step), action) for (seed, step), action in rows]
    for game, steps in zip(games, played, strict=True):
        assert steps == [entry for entry in game.log if entry[0] != "reset"]
        assert len(steps) == 30
    assert np.array_equal(np.concatenate(seen.observations).reshape(30, 2, 2)[:, 0, 1], [s[1] for s in played[0]])


def test_ends_are_told_apart() -> None:
    games = [CountingGame(3, "terminated"), CountingGame(3, "truncated"), CountingGame(5, lives_at=(2, 4))]
    collector, _ = collector_of(*games, n_sample=15, episodic_life=True)
    block, figures = collector.collect()
    done, flag = block["done"].T.tolist(), block["traj_flag"].T.tolist()
    third, lives = [False, False, True, False, False], [False, True, False, True, True]
    assert done == [third, [False] * 5, lives]
    assert flag == [third, third, lives]
    assert block["final_index"].tolist() == [2 * 3 + 0, 2 * 3 + 1, 4 * 3 + 2]  # no final observation at a lost life
    assert block["episode_step"][:, 2].tolist() == [0, 1, 2, 3, 4]  # the game goes on
    assert figures["episode"] == 3


def test_counts_add_up_and_decide_epsilon() -> None:
    collector, seen = collector_of(CountingGame(4), CountingGame(4), n_sample=6)
    for _ in range(3):
        collector.collect()
    assert (collector.envstep, collector.episode_count) == (18, 4)
    assert [kwargs["eps"] for kwargs in seen.kwargs] == [0] * 3 + [6] * 3 + [12] * 3
    assert collector.state_dict() == {"envstep": 18, "episode_count": 4, "attributes": {}}


def test_the_policy_hears_which_episodes_ended() -> None:
    collector, seen = collector_of(CountingGame(2), CountingGame(3), n_sample=6)
    collector.collect()
    assert seen.resets[0] is None
    assert [ids.tolist() for ids in seen.resets[1:]] == [[0], [1]]


def test_random_steps_do_not_ask_the_policys_taste() -> None:
    collector, seen = collector_of(*[CountingGame(50) for _ in range(4)], n_sample=4)
    seen.act = lambda obs, **kwargs: {"action": torch.zeros(len(obs), dtype=torch.int64)}
    block, _ = collector.collect(600, random=True)
    counts = np.bincount(block["action"].flatten().numpy(), minlength=3)
    assert (abs(counts - 200) < 60).all()  # standard deviation 12
    assert len({tuple(column) for column in block["action"].T.tolist()}) == 4  # drawn for each environment
    assert (collector.collect()[0]["action"] == 0).all()


class MaskedGame(CountingGame):
    """The game, which allows two of three actions: not the one that is the number of the step, modulo 3."""

    observation_space = Dict({"seen": Box(-np.inf, np.inf, (2,), np.float64), "action_mask": MultiBinary(3)})

    def observe(self) -> Any:
        return {"seen": super().observe(), "action_mask": (np.arange(3) != self.count % 3).astype(np.int8)}


def test_random_steps_take_only_actions_that_the_mask_allows() -> None:
    collector, seen = collector_of(MaskedGame(50), MaskedGame(70), n_sample=2)
    seen.act = lambda obs, **kwargs: {}
    block, _ = collector.collect(2 * 300, random=True)
    action_TN, mask_TNA = block["action"], block["obs"]["action_mask"]
    assert mask_TNA.dtype == torch.int8
    assert mask_TNA.gather(2, action_TN[..., None]).all()
    assert np.bincount(action_TN.flatten()).min() > 150  # 200 expected, standard deviation 12


def test_an_interruption_is_agreed_on_after_a_whole_collect() -> None:
    asked: list[bool] = []
    env = game_env(CountingGame(9))
    collector = SampleCollector(env, Seen(3), 4, [1], lambda: bool(asked))
    collector.collect()
    assert not collector.interrupted
    asked.append(True)
    block, figures = collector.collect()
    assert collector.interrupted
    assert (len(block["reward"]), figures["env_step"]) == (4, 4)


# -- environments that fail -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_worker_that_dies_truncates_its_episode_and_its_state_can_be_restored() -> None:
    def create(first_seed: int) -> SampleCollector:
        subprocess = ENV_DEFAULTS["manager"] | {"type": "subprocess"}
        games = [DyingGame(4, 100), CountingGame(4)]
        return collector_of(*games, n_sample=2 * 9, seeds=[first_seed, 200], manager=subprocess)[0]

    collector, other = create(100), create(300)
    block, figures = collector.collect()
    # the first game dies in its third step, and shows the observation before it once more
    assert block["obs"][:, :, 1].T.tolist() == [[0, 1, 2, 0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 0, 1, 2, 3, 0]]
    assert block["obs"][:, 0, 0].tolist() == [100] * 3 + [101] * 4 + [102] * 2
    assert (block["traj_flag"][2, 0], block["done"][2, 0], block["reward"][2, 0]) == (True, False, 0)
    assert block["final_obs"][block["final_index"] == 2 * 2].tolist() == [[100, 2]]
    assert (figures["episode"], figures["length"]) == (4, 3 + 4 + 4 + 4)
    assert other.load_local_state_dict(collector.local_state_dict()) == []
    assert same_blocks(*(one.collect(random=True)[0] for one in (collector, other)))
    for one in (collector, other):
        one._env.close()


# -- the state --------------------------------------------------------------------------------------------------------


def on_cart_pole(manager: str, seed: int, make: Any = SampleCollector, n_sample: int = 3 * 37) -> Any:
    """Return a collector of three CartPoles whose policy's choice is a function of the observation."""
    cfg = EasyDict(copy.deepcopy(ENV_DEFAULTS) | {"env_id": "CartPole-v1"})
    cfg.manager.type = manager
    seen = Seen(2)
    seen.act = lambda obs, **kwargs: {"action": torch.from_numpy((obs[:, 2] > 0).astype(np.int64))}
    return make(create_vector_env(cfg, 3, seed, True), seen, n_sample, [seed, seed + 1, seed + 2]), seen


def handed_over(state: Any, path: Path) -> Any:
    """Return a state as another process would read it."""
    save_checkpoint(str(path), {"state": state})
    return load_checkpoint(str(path))["state"]


def same_blocks(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        torch.equal(left[key], right[key]) and left[key].dtype == right[key].dtype for key in left
    )


@pytest.mark.parametrize("random", [True, False])
@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_a_restored_collector_plays_what_the_saved_one_would_have(manager: str, random: bool, tmp_path: Path) -> None:
    (collector, _), (other, seen) = on_cart_pole(manager, 5), on_cart_pole(manager, 700)
    for _ in range(2):
        collector.collect(random=random)
    state = handed_over(collector.local_state_dict(), tmp_path / "state")
    other.collect(random=True)
    other._obs = np.zeros_like(other._obs)  # as if the environments made new arrays, not wrote into these
    assert other.load_local_state_dict(state) == []
    assert len(seen.resets) == len([ids for ids in seen.resets[1:] if ids is not None]) + 1  # no forgetting
    for number in range(3):
        (mine, figures), (its, its_figures) = (one.collect(random=random or number == 2) for one in (collector, other))
        assert same_blocks(mine, its)
        assert figures | {"duration": 0} == its_figures | {"duration": 0}
    assert len(mine["final_index"]) > 0
    for one in (collector, other):
        one._env.close()


def test_the_state_is_as_it_was_when_it_was_asked_for() -> None:
    collector, other = (collector_of(CountingGame(6), CountingGame(9), n_sample=8)[0] for _ in range(2))
    collector.collect()
    state = collector.local_state_dict()
    block = copied(collector.collect()[0])
    other.load_local_state_dict(state)
    again, _ = other.collect()
    assert torch.equal(again["obs"], block["obs"])
    assert torch.equal(again["episode_step"], block["episode_step"])


def test_another_number_of_environments_is_an_error_that_says_what_to_set() -> None:
    state = collector_of(CountingGame(6), n_sample=2)[0].local_state_dict()
    other, _ = collector_of(CountingGame(6), CountingGame(6), n_sample=2)
    with pytest.raises(CheckpointError, match=r"holds 1 .* env\.collector_env_num=2: set it to"):
        other.load_local_state_dict(state)

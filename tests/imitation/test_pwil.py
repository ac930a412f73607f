"""PWIL: the coupling by hand, its restart at each episode, and runs that go on within their episodes."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

from ding_lite.entry import serial_pipeline
from ding_lite.imitation.pwil import PwilRewardModel
from ding_lite.offline.files import write_columns
from ding_lite.policy import Policy
from ding_lite.utils import ConfigError, load_checkpoint
from tests.distributed.on_ranks import call_on_ranks
from tests.imitation.helpers import build, make_block, pair, write_cartpole_expert
from tests.survival.common import differences

ALPHA, BETA, F = 2.0, 0.5, 3  # numbers of a step: two of the observation, one of the action
CARTPOLE_OBS = Box(-np.inf, np.inf, (4,), np.float32)
ACTIONS = Box(-1.0, 1.0, (1,), np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Any:
    """Return a model with the atoms 0, 1 and 2 along the first number, of which the deviation is 1, and T = 2."""
    end = np.array([False, True, True])
    columns: dict[str, Any] = {"obs": np.array([[0, 0], [1, 0], [2, 0]], np.float32), "done": end, "traj_flag": end}
    columns |= {"action": np.zeros((3, 1), np.float32), "reward": np.ones(3, np.float32)}
    path = str(tmp_path / "expert.npz")
    write_columns(path, columns, {"action_units": "env"})
    model = build(path, action_space=ACTIONS, cls=PwilRewardModel, alpha=ALPHA, beta=BETA)
    model._deviation_F = torch.ones(F)  # the other two have none
    return model


def block_of(*x: float, steps: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return a block of one environment, with these first numbers; by default its first step begins an episode."""
    block: dict[str, Any] = make_block(torch.zeros(len(x), 1, 1))
    block["obs"] = torch.tensor([[[each, 0.0]] for each in x])
    block["episode_step"] = torch.tensor(steps or range(len(x))).view(-1, 1)
    return block


def rewards(model: Any, block: dict[str, Any]) -> list[float]:
    return model.relabel(block)["reward"][:, 0].tolist()


def reward(mean_distance: float, matched: float = 1.0) -> float:
    """Return r for T c, the mean distance of a step's weight to its atoms, and the share that has found atoms."""
    return matched * ALPHA * math.exp(-BETA * mean_distance / math.sqrt(F))


def test_each_step_takes_its_weight_from_the_nearest_atoms_that_are_left(model: Any) -> None:
    """A step weighs 1/2 and an atom 1/3: the first step takes the atoms 0 and half of 1, the second the rest."""
    assert model._horizon == 2  # the longer one of the episodes
    first = 2 * (1 / 3 * 0.0 + 1 / 6 * 1.0)
    second = 2 * (1 / 6 * 1.0 + 1 / 3 * 2.0)  # also at 0
    assert rewards(model, block_of(0.0, 0.0)) == pytest.approx([reward(first), reward(second)])
    assert rewards(model, block_of(2.0, 0.0)) == pytest.approx([reward(first), reward(first)])


def test_an_episode_that_is_too_long_finds_nothing_and_the_next_one_finds_all(model: Any) -> None:
    once = rewards(model, block_of(0.0, 0.0))
    longer = block_of(0.0, 0.0, 1.0, 0.0, 0.0, steps=(0, 1, 2, 0, 1))
    assert rewards(model, longer) == pytest.approx([*once, 0.0, *once])


def test_a_block_goes_on_where_the_last_one_ended(model: Any) -> None:
    once = rewards(model, block_of(0.0, 0.0))
    assert rewards(model, block_of(0.0)) == pytest.approx(once[:1])
    state = copy.deepcopy(model.local_state_dict())
    assert rewards(model, block_of(0.0, steps=(1,))) == pytest.approx(once[1:])
    model.load_local_state_dict(state)
    assert rewards(model, block_of(0.0, steps=(1,))) == pytest.approx(once[1:])


def test_environments_have_atoms_of_their_own_and_the_block_is_not_changed(model: Any) -> None:
    single = block_of(0.0, 0.0)
    both: Any = {key: torch.cat([value, value], 1) for key, value in single.items() if key != "last_obs"}
    before = copy.deepcopy(both)
    reward_TN = model.relabel(both)["reward"]
    assert torch.equal(reward_TN[:, 0], reward_TN[:, 1])
    assert all(torch.equal(both[key], before[key]) for key in before)


def test_numbers_are_divided_by_their_deviation_over_the_data(tmp_path: Path) -> None:
    path = write_cartpole_expert(tmp_path / "expert.npz")
    columns = np.load(path)
    wide = str(tmp_path / "wide.npz")
    np.savez(wide, **{**columns, "obs": columns["obs"] * np.array([1, 10, 100, 1000], np.float32)})
    for sample_size in (7, 1000):
        numbers = [atoms_of(file, sample_size) for file in (path, wide)]
        torch.testing.assert_close(numbers[0], numbers[1])
        assert len(numbers[0]) == min(sample_size, 40)


def atoms_of(path: str, sample_size: int) -> torch.Tensor:
    """Return the atoms of a data set for CartPole, each observation of four numbers."""
    model = build(path, action_space=Discrete(2), cls=PwilRewardModel, obs_space=CARTPOLE_OBS, sample_size=sample_size)
    atoms: torch.Tensor = model._atom_DF
    return atoms


def train(*words: str, steps: int = 20) -> Policy:
    main, create = pair("pwil")
    main["reward_model"] = dict(data_path="expert.npz")
    return serial_pipeline((main, create), seed=0, max_train_iter=steps, overrides=words)


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path) -> None:
    """n_sample is 8 with two environments, so that checkpoints lie within episodes."""
    write_cartpole_expert()
    train("exp_name=whole", steps=40)
    train("exp_name=parts", steps=20)
    train("exp_name=parts", "policy.learn.resume_training=True", steps=40)
    whole, parts = (load_checkpoint(str(tmp_path / name / "ckpt" / "ckpt_last.pth.tar")) for name in ("whole", "parts"))
    assert differences(whole["policy"], parts["policy"]) == []


def train_on_ranks(*words: str, steps: int = 20) -> tuple[int, int]:
    return train("policy.divide=True", *words, steps=steps).checksum()


@pytest.mark.slow
def test_two_ranks_and_then_one_follow_the_same_episodes(tmp_path: Path) -> None:
    write_cartpole_expert(tmp_path / "expert.npz")
    one, other = call_on_ranks(train_on_ranks, timeout=280, cwd=tmp_path)
    assert one == other
    train_on_ranks("policy.learn.resume_training=True", steps=40)


def test_what_it_cannot_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'pwil' compares vectors, but an observation is Dict"):
        build(str(tmp_path / "no data"), cls=PwilRewardModel, obs_space=Dict(a=ACTIONS))

"""Two real processes that record together, one file of shares that differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ding_lite.entry import collect_demo_data
from ding_lite.model import DQN
from ding_lite.worker import DatasetError
from tests.distributed.on_ranks import call_on_ranks
from tests.run.helpers import pair


def record() -> tuple[dict[str, Any], str]:
    """Record steps and whole episodes; return the figures of the steps, and why the second cannot be repeated."""
    options: dict[str, Any] = {"overrides": ["env.collector_env_num=4", "env.max_episode_steps=12"]}
    steps = collect_demo_data(pair(), 0, 101, "steps.npz", model=DQN(4, 2), **options)
    for _ in range(2):
        try:
            collect_demo_data(pair(), 0, 5, "whole", model=DQN(4, 2), collect_episodes=True, **options)
        except DatasetError as error:
            return steps, str(error)
    return steps, ""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("recorded")
    return folder, call_on_ranks(record, cwd=folder)


def test_ranks_record_their_shares_with_their_own_seeds_into_one_file(recorded: Any) -> None:
    folder, ranks = recorded
    data = np.load(folder / "steps.npz")
    assert len(data["obs"]) == 101
    first, second = data["obs"][:51], data["obs"][51:]
    assert not set(map(bytes, first)) & set(map(bytes, second))
    assert data["traj_flag"][50]
    assert data["traj_flag"][100]
    starts = np.append(0, np.flatnonzero(data["traj_flag"])[:-1] + 1)
    assert (np.abs(data["obs"][starts]) <= 0.05).all()  # CartPole's first states: whose trajectory, however cut
    goes_on = ~data["traj_flag"][:-1]
    assert np.array_equal(data["next_obs"][:-1][goes_on], data["obs"][1:][goes_on])
    assert ranks[0] == ranks[1]
    assert ranks[0][0]["transitions"] == 101


def test_whole_episodes_of_all_ranks(recorded: Any) -> None:
    folder, ranks = recorded
    ends = np.flatnonzero(np.load(folder / "whole" / "traj_flag.npy"))
    lengths = np.diff(ends, prepend=-1)
    about = json.loads((folder / "whole" / "attributes.json").read_text())
    assert len(lengths) == about["episodes"] == 5
    assert lengths.sum() == about["transitions"] == len(np.load(folder / "whole" / "obs.npy"))
    assert about["return_mean"] == pytest.approx(lengths.mean())
    assert all(error.startswith("Directory 'whole' exists already") for _, error in ranks)

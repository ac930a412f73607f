"""Two real processes that record together, one file of shares that differ.

Each rank runs this file as `python -m tests.distributed.test_demo_data`, in an empty directory.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.entry import collect_demo_data
from ding_lite.model import DQN
from ding_lite.utils import DDPContext, get_rank
from ding_lite.worker import DatasetError
from tests.distributed.launcher import run_ranks, say
from tests.entry.helpers import pair


def run_rank() -> None:
    options: dict[str, Any] = {"overrides": ["env.collector_env_num=4", "env.max_episode_steps=12"]}
    steps = collect_demo_data(pair(), 0, 101, "steps.npz", model=DQN(4, 2), **options)
    whole = collect_demo_data(pair(), 0, 5, "whole", model=DQN(4, 2), collect_episodes=True, **options)
    try:
        collect_demo_data(pair(), 0, 5, "whole", model=DQN(4, 2), **options)
    except DatasetError as error:
        say(f"rank {get_rank()}: {error}")
    say(f"figures {json.dumps([steps, whole])}")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("recorded")
    result = run_ranks(["-m", "tests.distributed.test_demo_data"], cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def test_ranks_record_their_shares_with_their_own_seeds_into_one_file(recorded: Any) -> None:
    folder, out = recorded
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
    figures = [json.loads(found) for found in re.findall(r"^figures (.*)$", out, re.MULTILINE)]
    assert figures[0] == figures[1]
    assert figures[0][0]["transitions"] == 101
    assert out.count("101 transitions") == 1  # one of them speaks


def test_whole_episodes_of_all_ranks(recorded: Any) -> None:
    folder, out = recorded
    ends = np.flatnonzero(np.load(folder / "whole" / "traj_flag.npy"))
    lengths = np.diff(ends, prepend=-1)
    about = json.loads((folder / "whole" / "attributes.json").read_text())
    assert len(lengths) == about["episodes"] == 5
    assert lengths.sum() == about["transitions"] == len(np.load(folder / "whole" / "obs.npy"))
    assert about["return_mean"] == pytest.approx(lengths.mean())
    assert [f"rank {rank}: Directory 'whole' exists already" in out for rank in (0, 1)] == [True, True]


if __name__ == "__main__":
    torch.set_num_threads(1)
    with DDPContext(timeout=60):
        run_rank()

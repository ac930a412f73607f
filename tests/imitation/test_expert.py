"""The expert is a data set, or a run whose best policy plays."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ding_lite.entry import serial_pipeline
from ding_lite.imitation.expert import record_best
from ding_lite.utils import ConfigError
from ding_lite.utils.ranks.collectives import on_rank_0
from ding_lite.utils.seed import random_state
from tests.distributed.on_ranks import call_on_ranks
from tests.imitation.helpers import CARTPOLE, build, pair, write_expert


def test_without_units_the_message_names_the_key_of_the_reward_model(tmp_path: Path) -> None:
    from gymnasium.spaces import Box  # noqa: PLC0415

    from ding_lite.offline.files import write_columns  # noqa: PLC0415

    path, space = tmp_path / "expert.npz", Box(0.0, 4.0, (1,))
    write_expert(path, space)
    columns = {key: value for key, value in np.load(path).items() if key != "attributes"}
    write_columns(str(path), columns, {})
    with pytest.raises(ConfigError, match=r"set reward_model\.action_units to 'env' or 'policy'"):
        build(str(path), action_space=space, policy_action_space=Box(-1.0, 1.0, (1,)))


def record_on_ranks() -> str:
    return on_rank_0(lambda: record_best("teacher", 3))


@pytest.mark.slow
def test_a_run_plays_its_episodes_once_and_draws_nothing_that_the_new_run_draws(tmp_path: Path) -> None:
    main, create = pair()
    expert = {key: value for key, value in main.items() if key != "reward_model"} | dict(exp_name="teacher")
    serial_pipeline((expert, dict(policy=create["policy"])), seed=0, max_train_iter=8)
    (path, other), before = call_on_ranks(record_on_ranks, cwd=tmp_path), random_state()
    assert path == other
    on_ranks = dict(np.load(path))
    Path(path).unlink()
    assert record_best("teacher", 3) == path
    for key, column in np.load(path).items():  # rank 0 plays alone, so it is the same expert on any number of ranks
        assert key == "attributes" or np.array_equal(column, on_ranks[key])
    assert repr(random_state()) == repr(before)
    assert path == os.path.join("teacher", "ckpt_best_3_episodes.npz")
    episodes = np.load(path)["traj_flag"]
    assert episodes.sum() == 3
    stamp = os.stat(path).st_mtime_ns
    checkpoint = os.path.join("teacher", "ckpt", "ckpt_best.pth.tar")
    assert record_best(checkpoint, 3) == path
    assert os.stat(path).st_mtime_ns == stamp
    os.utime(checkpoint, ns=(stamp + 10**9, stamp + 10**9))  # a newer expert plays again
    assert record_best("teacher", 3) == path
    assert os.stat(path).st_mtime_ns > stamp
    words = ["reward_model.data_path=teacher", "reward_model.expert_episodes=3"]
    assert serial_pipeline(pair(), seed=0, max_train_iter=8, overrides=words).iteration >= 8
    assert CARTPOLE["reward_model"]["data_path"] == "expert.npz"


def test_what_is_no_trained_run_is_one_line(tmp_path: Path) -> None:
    Path("new").mkdir()
    Path("new", "total_config.py").write_text("")
    with pytest.raises(
        ConfigError, match=r"'new': expected a trained run, but 'new/ckpt/ckpt_best.pth.tar' is missing"
    ):
        record_best("new", 3)
    with pytest.raises(ConfigError, match=r"expected a trained run, but 'gone/total_config.py' is missing"):
        record_best("gone/ckpt/iteration_0.pth.tar", 3)
    assert record_best("data.npz", 3) == "data.npz"

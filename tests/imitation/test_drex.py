"""D-REX: it ranks by noise, and a run learns from a clone that plays with noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.imitation.drex import DrexRewardModel
from ding_lite.offline.dataset import read_dataset
from ding_lite.utils import load_checkpoint
from ding_lite.utils.registry import ConfigError
from tests.imitation.helpers import build
from tests.policy.helpers import same_tree
from tests.run.helpers import metrics, run

LEVELS = [0.0, 0.5, 1.0]


def test_the_one_with_less_noise_is_better_whatever_the_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two episodes of each level, of 3 steps; rewards rise with the noise."""
    number = np.repeat(np.arange(6), 3)
    end = np.append(number[1:] != number[:-1], True)
    obs = np.stack([number, number], 1).astype(np.float32)
    path = str(tmp_path / "data.npz")
    columns: dict[str, Any] = {"obs": obs, "reward": number.astype(np.float32), "done": end, "traj_flag": end}
    np.savez(path, **columns, action=np.zeros(len(obs), np.int64))
    monkeypatch.setattr(DrexRewardModel, "_recorded", lambda model, path, episodes: path)
    model = build(path, cls=DrexRewardModel, eps_list=LEVELS, expert_episodes=2)
    pairs = {(worse // 2, better // 2) for worse, better in model._pairs_P2.tolist()}
    assert pairs == {(1, 0), (2, 0), (2, 1)}
    assert len(model._pairs_P2) == 3 * 2 * 2


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "expected the directory of a run, whose policy plays with noise"),
        ({"eps_list": [0.5]}, "expected at least two shares from 0 to 1, got [0.5]"),
        ({"eps_list": [0.0, 2.0]}, "expected at least two shares from 0 to 1, got [0.0, 2.0]"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(str(tmp_path / "data.npz"), cls=DrexRewardModel, **keys)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_learns_from_a_clone_that_plays_with_noise_and_resumes(tmp_path: Path) -> None:
    run("exp_name=clone", "env.max_episode_steps=40")
    own = ["reward_model.type=drex", "reward_model.data_path=clone", "reward_model.expert_episodes=2"]
    own += ["reward_model.num_snippets=128", "reward_model.min_snippet_length=5", "reward_model.max_snippet_length=20"]
    own += ["reward_model.eps_list=[0.0,0.5,1.0]"]
    run("exp_name=whole", *own)
    logged = [record for record in metrics(tmp_path / "whole") if "reward_model/accuracy" in record]
    assert len(logged) == 1
    names = [f"clone/ckpt_best_2_episodes_noise_{level}.npz" for level in LEVELS]
    parts = [read_dataset(name, required=("obs", "action", "reward", "done")) for name in names]
    joined = read_dataset("clone/3_levels_of_noise.npz", required=("obs", "reward", "done"))
    assert len(joined.trajectories()[0]) == 6
    assert torch.equal(joined.columns["obs"], torch.cat([part.columns["obs"] for part in parts]))
    assert not torch.equal(parts[0].columns["obs"], parts[2].columns["obs"][: len(parts[0])])
    run("exp_name=parts", *own, max_env_step=160)
    run("exp_name=parts", *own, "policy.learn.resume_training=True")
    whole, again = (load_checkpoint(f"{name}/ckpt/ckpt_last.pth.tar") for name in ("whole", "parts"))
    assert same_tree(whole["reward_model"]["networks"], again["reward_model"]["networks"])
    assert same_tree(whole["policy"]["model"], again["policy"]["model"])


def test_keys_of_di_engine_have_their_names_here() -> None:
    section: dict[str, Any] = dict(type="drex", min_snippet_length=5, max_snippet_length=100, checkpoint_min=0)
    section |= dict(checkpoint_max=1000, checkpoint_step=1000, learning_rate=1e-5, update_per_collect=1)
    section |= dict(expert_model_path="expert", reward_model_path="a", offline_data_path="b", bc_path="clone")
    section |= dict(eps_list=[0, 0.5, 1], num_trajs_per_bin=20, bc_iterations=6000)
    main = dict(env=dict(env_id="CartPole-v1"), reward_model=section)
    own = compile_config((main, dict(policy=dict(type="dqn")))).reward_model
    assert (own.type, own.data_path, own.train_epoch, own.expert_episodes) == ("drex", "clone", 1, 20)
    assert own.eps_list == [0, 0.5, 1]

"""Policies that play after data have the losses and the checkpoints of those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.entry import serial_pipeline, serial_pipeline_offline
from ding_lite.offline.files import write_columns
from ding_lite.utils import load_checkpoint
from tests.policy.continuous.helpers import losses, make_batch, make_qac, with_noise
from tests.policy.helpers import same_tree
from tests.run.helpers import metrics, result

KINDS = ("iql", "cql", "td3_bc")


@pytest.mark.parametrize("kind", KINDS)
def test_the_losses_are_those_of_the_offline_policy(kind: str) -> None:
    torch.manual_seed(0)
    offline = make_qac(kind)
    online = make_qac(f"{kind}_online")
    online.model.load_state_dict(offline.model.state_dict())
    for name, target in offline._target_networks.items():
        online._target_networks[name].load_state_dict(target.state_dict())
    batch = with_noise(offline, make_batch(8)) | {"adv": torch.ones(8), "next_value": torch.ones(8)}
    batch |= {"log_prob": torch.ones(8), "conservative_gap": torch.ones(2)}
    theirs, ours = losses(offline, batch), losses(online, batch)
    assert theirs.keys() == ours.keys()
    assert same_tree([loss for loss, _ in theirs.values()], [loss for loss, _ in ours.values()])


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_learns_from_data_then_plays_and_may_begin_with_an_offline_policy(kind: str, tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(0), 200
    obs, end = rng.normal(size=(rows + 1, 3)).astype(np.float32), np.arange(rows) % 50 == 49
    columns = {"obs": obs[:-1], "next_obs": obs[1:], "action": rng.uniform(-2, 2, (rows, 1)).astype(np.float32)}
    columns |= {"reward": rng.normal(size=rows).astype(np.float32), "done": np.zeros(rows, bool), "traj_flag": end}
    write_columns(str(tmp_path / "data.npz"), columns, {"action_units": "env"})
    data, small = str(tmp_path / "data.npz"), dict(actor_head_hidden_size=8, critic_head_hidden_size=8)
    env = dict(env_id="Pendulum-v1", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1)

    def pair(name: str, **policy: Any) -> Any:
        policy["learn"] = {"batch_size": 8, **policy.get("learn", {})}
        main = dict(exp_name=str(tmp_path / name), env=env, policy=dict(model=small, **policy))
        return main, dict(policy=dict(type=name))

    offline = serial_pipeline_offline(pair(kind, collect=dict(data_path=data)), seed=0, max_train_iter=10)
    buffer = dict(type="demonstrations", data_path=data, first_updates=20)
    first = str(tmp_path / kind / "ckpt" / "ckpt_last.pth.tar")
    online = pair(
        f"{kind}_online",
        learn=dict(update_per_collect=2, learner=dict(hook=dict(load_ckpt_before_run=first))),
        other=dict(replay_buffer=buffer),
    )
    policy = serial_pipeline(online, seed=0, max_train_iter=60)
    assert result(tmp_path / f"{kind}_online")["envstep"] == 40  # 20 collects of 2 steps, 2 iterations each
    begun = load_checkpoint(str(tmp_path / f"{kind}_online" / "ckpt" / "iteration_0.pth.tar"))
    assert same_tree(begun["policy"]["model"], offline.state_dict()["model"])
    assert policy.iteration >= 60
    assert "eval/return_mean" in metrics(tmp_path / f"{kind}_online")[0]

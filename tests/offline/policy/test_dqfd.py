"""DQfD's loss, by hand."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.entry import serial_pipeline, serial_pipeline_dqfd
from ding_lite.offline.dataset import read_dataset
from tests.offline.test_sqil import pair, write_expert
from tests.policy.helpers import Formula, build_policy
from tests.run.helpers import metrics


def hand(*overrides: str, expert: bool = True, done_1: bool = False) -> Any:
    """Return a policy with Q(s, .) = (s, 2 s, 0) and Q' the same; s = 1, a = 0, s_{t+1} = 2, s_{t+n} = 3."""
    table = Formula(lambda net, obs: {"logit": obs * net.slope}, slope=[1.0, 2.0, 0.0])
    policy = build_policy("dqfd", {}, "discount_factor=0.5", "nstep=2", *overrides, model=table)
    batch: dict[str, Any] = {"obs": [[1.0]], "next_obs": [[3.0]], "next_obs_1": [[2.0]], "action": [0]}
    batch |= {"reward": [1.5], "reward_1": [0.5], "value_gamma": [0.25], "is_expert": [expert]}
    batch |= {"done": [False], "done_1": [done_1]}
    return policy, {key: torch.tensor(value) for key, value in batch.items()} | {"noise": {}}


@pytest.mark.parametrize(("expert", "margin"), [(True, 2.0 + 0.8 - 1.0), (False, 0.0)])
def test_the_loss_has_both_errors_and_a_margin_for_demonstrations(expert: bool, margin: float) -> None:
    policy, batch = hand("learn.lambda1=0.5", "learn.lambda2=3.0", expert=expert)
    loss, figures = policy._loss(batch)
    # y_1 = 0.5 + 0.5 * 4 and y_n = 1.5 + 0.25 * 6; Q(s, a) = 1
    first, several = 2.5 - 1.0, 3.0 - 1.0
    assert loss.item() == pytest.approx(first**2 + 0.5 * several**2 + 3.0 * margin)
    assert figures["priority"].item() == pytest.approx(first + 0.5 * several + 3.0 * margin)
    assert figures["margin_loss"].item() == pytest.approx(margin)
    assert figures["expert_best"].item() == 0.0


def test_the_margin_is_zero_where_the_demonstrated_action_is_best_by_it() -> None:
    policy, batch = hand("learn.margin_function=1.0")
    batch["action"] = torch.tensor([1])  # whose value 2 is 1 above the next one
    _, figures = policy._loss(batch)
    assert [figures[key].item() for key in ("margin_loss", "expert_best")] == [0.0, 1.0]
    policy, batch = hand("learn.margin_function=1.5")
    batch["action"] = torch.tensor([1])
    assert policy._loss(batch)[1]["margin_loss"].item() == pytest.approx(0.5)


def test_the_first_step_has_its_own_end() -> None:
    policy, batch = hand("learn.lambda1=0.0", "learn.lambda2=0.0", done_1=True)
    assert policy._loss(batch)[0].item() == pytest.approx((0.5 - 1.0) ** 2)
    policy, batch = hand("learn.lambda1=0.0", "learn.lambda2=0.0", "learn.ignore_done=True", done_1=True)
    assert policy._loss(policy._prepare(batch))[0].item() == pytest.approx((2.5 - 1.0) ** 2)


def test_without_demonstrations_there_is_no_margin() -> None:
    policy, batch = hand()
    del batch["is_expert"]
    assert policy._loss(batch)[1]["margin_loss"].item() == 0.0


def test_keys_of_di_engine_have_their_names_here() -> None:
    learn = dict(lambda1=1, lambda2=3.0, lambda3=1e-5, per_train_iter_k=10, expert_replay_buffer_size=10000)
    main = dict(env=dict(env_id="CartPole-v1"), policy=dict(learn=learn, collect=dict(pho=0.25, model_path="expert")))
    cfg = compile_config((main, dict(policy=dict(type="dqfd"))))
    buffer = cfg.policy.other.replay_buffer
    assert (buffer.type, buffer.first_updates, buffer.ratio) == ("demonstrations", 10, 0.25)
    assert (cfg.policy.learn.weight_decay, cfg.policy.learn.lambda2) == (1e-5, 3.0)


def test_a_run_learns_the_margin_from_the_data_or_from_an_experts_config(tmp_path: Path) -> None:
    config: Any = pair(tmp_path, "dqfd")
    del config[0]["policy"]["other"]
    words = ["policy.other.replay_buffer.first_updates=200", "learn.batch_size=16", "learn.learning_rate=0.01"]
    words = [word if word.startswith("policy") else f"policy.{word}" for word in words]
    serial_pipeline_dqfd(config, write_expert(tmp_path / "expert.npz"), 0, max_train_iter=220, overrides=words)
    record = [each for each in metrics(tmp_path / "run") if "train/expert_best" in each][-1]
    assert record["train/expert_best"] == pytest.approx(1.0)
    expert: Any = copy.deepcopy(config)
    expert[0]["exp_name"], expert[1]["policy"]["type"] = str(tmp_path / "expert"), "dqn"
    serial_pipeline(expert, seed=0, max_train_iter=5)
    policy = serial_pipeline_dqfd(config, expert, seed=0, max_train_iter=20)
    assert policy.iteration >= 20
    assert read_dataset(str(tmp_path / "run_expert.npz")).columns["action"].max() <= 1

"""RED: its error and reward by hand; it learns from the expert alone, once; runs that go on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.entry import serial_pipeline
from ding_lite.imitation.red import RedRewardModel
from ding_lite.policy import Policy
from ding_lite.utils import load_checkpoint
from tests.distributed.on_ranks import call_on_ranks
from tests.imitation.helpers import build, make_block, pair, write_cartpole_expert, write_expert
from tests.policy.helpers import Formula
from tests.survival.common import differences

ACTION_TN = torch.tensor([[0, 1], [2, 0], [1, 1]])


@pytest.fixture
def model(tmp_path: Path) -> Any:
    path = write_expert(tmp_path / "expert.npz", action=np.zeros(12, np.int64))
    return build(path, cls=RedRewardModel, update_per_collect=400, hidden_size_list=[16, 8], batch_size=12)


def test_a_step_is_compared_with_the_target_of_the_same_step(model: Any) -> None:
    """The networks say (s_0, s_1) and (s_0, 0): the error is s_1^2 / 2 of this step, and of no other one."""
    encoder = model._target.encoder
    model._predictor = Formula(lambda net, obs, action: obs)
    model._target = Formula(lambda net, obs, action: obs * torch.tensor([1.0, 0.0]), encoder=encoder)
    model._normalizer.normalize_obs = lambda obs: obs
    model._sigma = 0.5
    block = make_block(ACTION_TN)
    expected_TN = (-0.5 * block["obs"][..., 1].square() / 2).exp()
    torch.testing.assert_close(model.relabel(block)["reward"], expected_TN)


def test_the_expert_gets_about_one_and_what_it_never_does_less(model: Any) -> None:
    """The expert always plays 0, in 12 states, which are its own; sigma gives 95 % of them 0.9 or more."""
    block = make_block(torch.zeros(12, 3, dtype=torch.int64))
    block["obs"] = torch.from_numpy(np.load(Path(model._cfg.data_path))["obs"])[:, None].expand(12, 3, 2)
    block["action"] = torch.arange(3).expand(12, 3)
    reward_TN = model.process(block)["reward"]
    assert (reward_TN[:, 0] > 0.9 - 1e-3).sum() >= 11
    assert reward_TN[:, 0].min() > reward_TN[:, 1:].max()
    assert math.exp(-model._sigma * float(model._error(model._expert).quantile(0.95))) == pytest.approx(0.9)


def test_it_learns_once_and_from_the_expert_alone(model: Any, tmp_path: Path) -> None:
    block = make_block(ACTION_TN)
    first = model.process(block)["reward"]
    assert torch.equal(model.process(block)["reward"], first)
    assert model._optimizer.steps == 400
    path = str(tmp_path / "expert.npz")
    other = build(path, cls=RedRewardModel, update_per_collect=400, hidden_size_list=[16, 8], batch_size=12)
    other.process(make_block(ACTION_TN + 0, traj_flag=ACTION_TN == 0) | {"obs": torch.ones(3, 2, 2)})
    assert torch.equal(other.relabel(block)["reward"], first)  # whatever the policy did


def train(*words: str, steps: int = 20) -> Policy:
    main, create = pair("red")
    main["reward_model"] |= dict(update_per_collect=50)
    return serial_pipeline((main, create), seed=0, max_train_iter=steps, overrides=words)


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path) -> None:
    write_cartpole_expert()
    train("exp_name=whole", steps=40)
    train("exp_name=parts", steps=20)
    train("exp_name=parts", "policy.learn.resume_training=True", steps=40)
    whole, parts = (load_checkpoint(str(tmp_path / name / "ckpt" / "ckpt_last.pth.tar")) for name in ("whole", "parts"))
    for part in ("policy", "reward_model"):
        assert differences(whole[part], parts[part]) == []


def train_on_ranks(*words: str, steps: int = 20) -> tuple[int, int]:
    words = ("policy.divide=True", "policy.learn.learner.hook.check_ranks_after_iter=10", *words)
    return train(*words, steps=steps).checksum()


@pytest.mark.slow
def test_two_ranks_have_one_predictor_and_one_goes_on_with_it(tmp_path: Path) -> None:
    write_cartpole_expert(tmp_path / "expert.npz")
    one, other = call_on_ranks(train_on_ranks, timeout=280, cwd=tmp_path)
    assert one == other
    before = load_checkpoint(str(tmp_path / "run" / "ckpt" / "ckpt_last.pth.tar"))["reward_model"]
    train_on_ranks("policy.learn.resume_training=True", steps=40)
    after = load_checkpoint(str(tmp_path / "run" / "ckpt" / "ckpt_last.pth.tar"))["reward_model"]
    assert differences(before["networks"], after["networks"]) == []

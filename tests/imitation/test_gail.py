"""GAIL: its rewards, its loss, the gradient penalty, and absorbing states, by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium.spaces import Discrete

from ding_lite.entry import serial_pipeline
from ding_lite.imitation.gail import FORMS
from ding_lite.utils import ConfigError
from tests.imitation.helpers import build, make_block, pair, write_cartpole_expert, write_expert

ACTION_TN = torch.tensor([[0, 1], [2, 0], [1, 1]])
DONE_TN = torch.tensor([[False, False], [True, False], [False, False]])
CUT_TN = torch.tensor([[False, True], [True, False], [False, False]])  # one is terminal, one is a time limit


@pytest.fixture
def expert(tmp_path: Path) -> str:
    return write_expert(tmp_path / "expert.npz")


def linear(model: Any, *weights: float) -> Any:
    """Return the model with a head that is linear: f(x) = weights . x, without a bias."""
    model._head = torch.nn.Linear(len(weights), 1, bias=False)
    model._head.weight.data = torch.tensor([weights])
    return model


def test_the_forms_of_the_reward() -> None:
    """For f = log 3, D is 3/4: -log(1 - D) = log 4, log D = log 3/4, and the sum of both is log 3."""
    f = torch.tensor(math.log(3.0))
    expected = {"positive": math.log(4.0), "negative": math.log(0.75), "logit": math.log(3.0)}
    assert {form: reward(f).item() for form, reward in FORMS.items()} == pytest.approx(expected)
    far = {form: reward(torch.tensor([-200.0, 200.0])).tolist() for form, reward in FORMS.items()}
    assert far == {"positive": [0.0, 200.0], "negative": [-200.0, 0.0], "logit": [-200.0, 200.0]}  # D is 0 or 1 there


def test_the_loss_is_a_cross_entropy_and_the_penalty_that_of_a_slope(expert: str) -> None:
    """f is 2 times the first number: 0 for the policy, 2 for the expert. Its slope is 2 everywhere, 1 too much."""
    model = linear(build(expert, grad_penalty_weight=0.5), 2.0, 0.0, 0.0, 0.0, 0.0)
    own = {"obs": torch.zeros(4, 2), "action": torch.eye(3)[[0, 1, 2, 0]]}
    batch = {"own": own, "expert": {**own, "obs": torch.ones(4, 2)}, "place": torch.rand(4, 1)}
    loss, figures = model._loss(batch)
    assert loss.item() == pytest.approx(math.log(2.0) + math.log1p(math.exp(-2.0)) + 0.5 * (2.0 - 1.0) ** 2)
    assert figures["grad_penalty"].item() == pytest.approx(1.0)
    assert (figures["policy_accuracy"], figures["expert_accuracy"]) == (0.0, 1.0)
    (slope,) = torch.autograd.grad(loss, model._head.weight)
    # d/dw of softplus(0) + softplus(-w_0) + 0.5 (|w| - 1)^2 at w_0 = 2
    assert slope[0, 0].item() == pytest.approx(-1.0 / (1.0 + math.exp(2.0)) + 1.0, rel=1e-5)
    plain, figures = linear(build(expert, grad_penalty_weight=0.0), 2.0, 0.0, 0.0, 0.0, 0.0)._loss(batch)
    assert plain.item() == pytest.approx(loss.item() - 0.5)
    assert "grad_penalty" not in figures


def test_it_learns_which_steps_are_the_experts(tmp_path: Path) -> None:
    """The expert always plays 0. The policy plays all actions, in the same states."""
    path = write_expert(tmp_path / "expert.npz", action=torch.zeros(12, dtype=torch.int64).numpy())
    model, block = build(path, learning_rate=0.01), make_block(ACTION_TN)
    for _ in range(3):
        reward_TN = model.process(block)["reward"]
    assert reward_TN[ACTION_TN == 0].min() > reward_TN[ACTION_TN != 0].max()
    assert model.take_figures()["policy_accuracy"] > 0.5


def test_only_a_terminal_step_leads_to_the_absorbing_state(expert: str) -> None:
    """Of six steps one is terminal, and of the expert's twelve two are; the truncated ones are not."""
    model, block = build(expert, absorbing=True), make_block(ACTION_TN, DONE_TN, CUT_TN)
    own = model._samples(model._ready(model._steps_of(block)))
    assert own["absorbing"].tolist() == [False] * 6 + [True]
    assert model._samples(model._ready(model._expert))["absorbing"].tolist() == [False] * 12 + [True] * 2
    assert model._features(own)[6].tolist() == [0.0] * 5 + [1.0]  # nothing of a state or an action, but the flag
    assert (model._features(own)[:6, 5] == 0.0).all()


def test_the_return_after_the_end_joins_the_last_reward(expert: str) -> None:
    """f is 1 for every step and 1 - 3 = -2 in the absorbing state; g = 0.9 gives -2 * 0.9 / 0.1 = -18 after the end."""
    model = linear(build(expert, absorbing=True, reward_form="logit"), 0.0, 0.0, 1.0, 1.0, 1.0, -2.0)
    with torch.no_grad():
        reward_TN = model.relabel(make_block(ACTION_TN, DONE_TN, CUT_TN))["reward"]
    torch.testing.assert_close(reward_TN, torch.where(DONE_TN, 1.0 - 18.0, 1.0))
    short = linear(build(expert, reward_form="logit"), 0.0, 0.0, 1.0, 1.0, 1.0)
    assert (short.relabel(make_block(ACTION_TN, DONE_TN, CUT_TN))["reward"] == 1.0).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("policy.learn.ignore_done=True", "reward_model.absorbing=True contradicts policy.learn.ignore_done=True"),
        ("policy.discount_factor=1.0", "reward_model.absorbing=True contradicts policy.discount_factor=1"),
        ("reward_model.data_path=", "reward_model.data_path: expected an expert for 'gail', a data set or the direct"),
        ("reward_model.data_path=gone.npz", "gone.npz"),
    ],
)
def test_mistakes_are_one_line(words: str, message: str) -> None:
    write_cartpole_expert()
    with pytest.raises(ConfigError) as caught:
        serial_pipeline(pair(), seed=0, max_train_iter=8, overrides=["reward_model.absorbing=True", words])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_expert_of_another_environment_is_refused(expert: str) -> None:
    with pytest.raises(ConfigError, match="key 'action': expected actions of Discrete"):
        build(expert, action_space=Discrete(2))

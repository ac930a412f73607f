"""Behaviour cloning: its loss and gradient by hand, for each kind of action."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ding_lite.policy import BCPolicy
from tests.policy.helpers import build_policy

LN = math.log


class Table(nn.Module):
    """What is written down for one-hot observations: a logit, or an action."""

    def __init__(self, rows: list[list[float]], key: str) -> None:
        super().__init__()
        self.rows, self._key = nn.Parameter(torch.tensor(rows)), key

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        return {self._key: obs @ self.rows}


class Branches(Table):
    """A logit for two choices: of three options, and of two."""

    def forward(self, obs: Tensor) -> dict[str, Any]:
        lacking = torch.tensor([[False, False, False], [False, False, True]])
        return {"logit": {"branches": (obs @ self.rows).unflatten(-1, (2, 3)).masked_fill(lacking, -torch.inf)}}


def make_bc(*overrides: str, model: nn.Module | None = None, space: str = "discrete") -> BCPolicy:
    """Build a small policy of two actions or dimensions; overrides without their `policy.`."""
    network = dict(obs_shape=5, action_shape=2, action_space=space, encoder_hidden_size_list=[32, 16])
    return build_policy("bc", network, *overrides, model=model)


# Probabilities 1/4, 3/4 in state 0 and 1/2, 1/2 in state 1; the expert did 0 and 0.
LOGIT = [[0.0, LN(3)], [0.0, 0.0]]
CHOSEN = {"obs": torch.eye(2), "action": torch.tensor([0, 0])}


def test_the_loss_of_discrete_actions_by_hand() -> None:
    policy = make_bc("learn.learning_rate=0.01", model=Table(LOGIT, "logit"))
    output = policy.learn(CHOSEN)
    assert output["total_loss"].item() == pytest.approx((LN(4) + LN(2)) / 2, rel=1e-5)
    # where two logits are equal the first counts as the most likely
    assert output["accuracy"].tolist() == [0.0, 1.0]
    # d/dlogit of -log p(0) / 2: (p - 1 at 0, p elsewhere) / 2
    expected = torch.tensor([[-0.375, 0.375], [-0.25, 0.25]])
    torch.testing.assert_close(policy.model.rows.grad, expected)
    assert output["grad_norm"].item() == pytest.approx(math.sqrt(2 * 0.375**2 + 2 * 0.25**2), rel=1e-5)
    # Adam's first step is the learning rate against the gradient's sign
    torch.testing.assert_close(policy.model.rows.data, torch.tensor(LOGIT) - 0.01 * expected.sign())


def test_smoothed_labels_spread_a_tenth_over_all_actions() -> None:
    policy = make_bc("learn.ce_label_smooth=True", model=Table(LOGIT, "logit"))
    loss, _ = policy.loss(CHOSEN)
    # the expert's action counts 0.9 + 0.1 / 2, the other one 0.1 / 2
    first, second = 0.95 * LN(4) + 0.05 * LN(4 / 3), LN(2)
    assert loss.item() == pytest.approx((first + second) / 2, rel=1e-5)


@pytest.mark.parametrize(("smooth", "share"), [(False, 0.0), (True, 0.1)])
def test_several_choices_are_imitated_by_the_sum_of_their_losses(smooth: bool, share: float) -> None:
    model = Branches([[0.0, LN(2), 0.0, 0.0, LN(3), 5.0]] * 2, "logit")
    policy = make_bc(f"learn.ce_label_smooth={smooth}", model=model)
    batch = {"obs": torch.eye(2), "action": torch.tensor([[1, 0], [0, 1]])}
    output = policy.learn(batch)
    # probabilities 1/4, 1/2, 1/4 and 1/4, 3/4; the expert chose 1, 0 and 0, 1
    chosen = (LN(2) + LN(4) + LN(4) + LN(4 / 3)) / 2
    spread = (LN(4) + LN(2) + LN(4)) / 3 + (LN(4) + LN(4 / 3)) / 2
    assert output["total_loss"].item() == pytest.approx((1 - share) * chosen + share * spread, rel=1e-5)
    assert output["accuracy"].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert model.rows.grad is not None
    assert model.rows.grad.isfinite().all()
    assert model.rows.grad[:, 5].tolist() == [0.0, 0.0]  # an option that there is not
    assert policy.act(np.eye(2), explore=False)["action"].tolist() == [[1, 1]] * 2


# Dimensions 0.5, -1 in state 0 and 0, 2 in state 1; differences to the expert's: 0.5, -1, -1, 0.
MU = [[0.5, -1.0], [0.0, 2.0]]
DONE = {"obs": torch.eye(2), "action": torch.tensor([[0.0, 0.0], [1.0, 2.0]])}


@pytest.mark.parametrize(
    ("loss_type", "loss", "gradient"),
    [
        ("l1_loss", (0.5 + 1 + 1) / 4, [[0.25, -0.25], [-0.25, 0.0]]),  # sign / 4
        ("mse_loss", (0.25 + 1 + 1) / 4, [[0.25, -0.5], [-0.5, 0.0]]),  # 2 difference / 4
    ],
)
def test_the_loss_of_continuous_actions_by_hand(loss_type: str, loss: float, gradient: list[list[float]]) -> None:
    policy = make_bc(f"loss_type={loss_type}", model=Table(MU, "action"))
    output = policy.learn(DONE)
    assert output["total_loss"].item() == pytest.approx(loss, rel=1e-5)
    assert output["action_error"].tolist() == [[0.5, 1.0], [1.0, 0.0]]
    torch.testing.assert_close(policy.model.rows.grad, torch.tensor(gradient))


def test_actions_of_another_shape_than_the_models_are_no_pairs_of_all_with_all() -> None:
    policy = make_bc(model=Table([[1.0], [2.0]], "action"))
    with pytest.raises(ValueError, match=r"the model's shape \(2, 1\), got \(2,\)"):
        policy.loss({"obs": torch.eye(2), "action": torch.zeros(2)})


def test_continuous_may_say_what_the_environment_says() -> None:
    assert make_bc("continuous=False").current_config.continuous is False
    assert make_bc("continuous=True", space="continuous").current_config.continuous is True

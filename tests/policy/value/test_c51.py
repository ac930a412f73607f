"""C51's loss by hand, on distributions that are written down, and its support."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.model import C51DQN
from ding_lite.policy.value.c51 import Support, categorical_loss
from ding_lite.utils.registry import ConfigError
from tests.policy.helpers import ACTIONS, OBS, make_policy, target_of

LN = math.log
SUPPORT = ("model.v_min=0.0", "model.v_max=4.0", "model.n_atom=3")  # the atoms 0, 2, 4


class Table(nn.Module):
    """Probabilities written down, `[S, A, 3]`, for one-hot observations."""

    def __init__(self, values: Any) -> None:
        super().__init__()
        self.log_p = nn.Parameter(torch.tensor(values).log())

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        p_BAK = torch.einsum("bs,sak->bak", obs, self.log_p).softmax(-1)
        return {"logit": p_BAK @ torch.tensor([0.0, 2.0, 4.0]), "distribution": p_BAK}


EVEN = [1 / 3, 1 / 3, 1 / 3]
# Online, action 1 is the best in state 1 (3 against 1); the target prefers action 0 there (3.5 against 1).
ONLINE = [[[0.25, 0.25, 0.5], EVEN], [[0.5, 0.5, 1e-9], [1e-9, 0.5, 0.5]]]
TARGET = [[EVEN, EVEN], [[1e-9, 0.25, 0.75], [0.5, 0.5, 1e-9]]]


def table_policy(*overrides: str) -> Any:
    policy = make_policy(*SUPPORT, *overrides, model=Table(ONLINE), kind="c51")
    target_of(policy)["log_p"].copy_(torch.tensor(TARGET).log())
    return policy


def table_batch(**more: Tensor) -> dict[str, Tensor]:
    """One step from state 0 by action 0 to state 1, and one from state 1 by action 0 to a terminal state."""
    return {
        "obs": torch.eye(2),
        "next_obs": torch.eye(2).flip(0),
        "action": torch.tensor([0, 0]),
        "reward": torch.tensor([1.0, 1.0]),
        "done": torch.tensor([False, True]),
        "value_gamma": torch.tensor([0.5, 0.5]),
        **more,
    }


# Sample 0: with a reward of 1 and the discount 1/2 the atoms become 1, 2, 3.
#   Double: action 1, the target's 1/2, 1/2, 0. 1 goes to 0 and 2 by halves: 1/4, 3/4, 0. -log 1/4 for both: log 4.
#   Not double: action 0, 0, 1/4, 3/4. 3 goes to 2 and 4 by halves: 0, 5/8, 3/8: 5/8 log 4 + 3/8 log 2.
# Sample 1 ends with 1: 1/2, 1/2, 0, each predicted with 1/2: log 2, the target's entropy, and so a priority of 0.
FIRST = {True: LN(4), False: 5 / 8 * LN(4) + 3 / 8 * LN(2)}
PRIORITY = {True: 3 / 4 * LN(3), False: 5 / 8 * LN(5 / 2) + 3 / 8 * LN(3 / 4)}  # sum_i m_i log m_i / p_i


@pytest.mark.parametrize("double", FIRST)
def test_loss_by_hand(double: bool) -> None:
    loss, output = table_policy(f"double={double}").loss(table_batch())
    assert output["priority"].tolist() == pytest.approx([PRIORITY[double], 0.0], rel=1e-5, abs=1e-6)
    assert loss.item() == pytest.approx((FIRST[double] + LN(2)) / 2, rel=1e-5)
    assert output["q_value"].mean().item() == pytest.approx((2.5 + 2 + 1 + 3) / 4)
    assert output["clipped_share"].tolist() == [0.0, 0.0]


def test_a_truncated_step_bootstraps_by_the_discount_of_the_steps_taken() -> None:
    # 1/4 for 1/2: the atoms 0 and 2 become 1 and 1.5: half and three quarters to 2: 3/8, 5/8. Both are predicted with
    # 1/4. The discount 3/2: 1 and 4, half of 1 to 0 and 2 each, and all of 4 to 4: 1/4, 1/4, 1/2, as predicted.
    for value_gamma, expected in ((0.25, 3 / 8 * LN(3 / 2) + 5 / 8 * LN(5 / 2)), (1.5, 0.0)):
        batch = table_batch(value_gamma=torch.tensor([value_gamma, 0.5]))
        priority = table_policy().loss(batch)[1]["priority"][0].item()
        assert priority == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_targets_beyond_the_support_are_a_logged_figure() -> None:
    policy = table_policy()
    _, output = policy.loss(table_batch(reward=torch.tensor([3.5, -1.0])))
    # 3.5 and 4.5, each with 1/2; -1 alone
    assert output["clipped_share"].tolist() == pytest.approx([0.5, 1.0])
    assert "clipped_share" in policy.monitor_vars()


def test_a_model_of_another_support_is_refused() -> None:
    model = C51DQN(OBS, ACTIONS, [16, 8], v_min=0.0, v_max=200.0)
    with pytest.raises(ConfigError, match=r"v_min=-10\.0, but the model has v_min=0\.0: set policy\.model\.v_min=0\.0"):
        make_policy(model=model, kind="c51")
    make_policy("model.v_min=0.0", "model.v_max=200.0", model=model, kind="c51")
    with pytest.raises(ConfigError, match="must be smaller"):
        C51DQN(OBS, ACTIONS, v_min=1.0, v_max=-1.0)


def test_a_probability_that_is_rounded_to_zero_still_learns_from_its_logarithm() -> None:
    # exp(-200) is 0 in float32. The targets are 1/4, 3/4, 0 and 0, 1/2, 1/2, see `Support`'s atoms 0, 2, 4.
    logits = torch.tensor([0.0, -200.0, -200.0]).repeat(2, 2, 1).requires_grad_()
    online = {"log_distribution": logits.log_softmax(-1), "distribution": logits.softmax(-1), "logit": logits[..., 0]}
    target = {"distribution": torch.tensor([0.5, 0.5, 0.0]).expand(2, 2, 3)}
    batch = table_batch(reward=torch.tensor([1.0, 3.0]))
    loss, _ = categorical_loss((online, target, torch.tensor([0, 0])), batch, None, Support(0.0, 4.0, 3))
    assert loss.item() == pytest.approx((0.75 * 200 + 200) / 2)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad[1, 0].tolist() == pytest.approx([0.5, -0.25, -0.25])
    del online["log_distribution"]  # of a model without it: finite, but without this gradient
    assert categorical_loss((online, target, torch.tensor([0, 0])), batch, None, Support(0.0, 4.0, 3))[0].isfinite()

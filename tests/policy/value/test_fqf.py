"""FQF's losses by hand, on quantile functions that are written down, and its two optimizers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.model import FractionHead
from ding_lite.utils.registry import ConfigError
from tests.policy.helpers import make_batch, make_policy, target_of
from tests.policy.value.test_losses import table_batch


class Table(nn.Module):
    """Quantiles a + b tau^2 written down, `[S, A, 2]`, for one-hot observations, and two equal intervals."""

    def __init__(self, values: Any) -> None:
        super().__init__()
        self.curve = nn.Parameter(torch.tensor(values))
        self.fraction = FractionHead(2, 2)
        nn.init.zeros_(self.fraction.weight)

    def _quantiles(self, obs: Tensor, tau: Tensor) -> Tensor:
        start_BA, slope_BA = torch.einsum("bs,sap->pba", obs, self.curve)
        return start_BA[:, None] + slope_BA[:, None] * tau[..., None].square()

    def forward(self, obs: Tensor, boundaries: bool = False) -> dict[str, Tensor]:
        log_length = self.fraction(obs)
        ends = nn.functional.pad(log_length.exp().cumsum(-1), (1, 0))
        middles = (ends[:, 1:] + ends[:, :-1]).detach() / 2
        output = {"q": self._quantiles(obs, middles), "quantiles": ends, "quantiles_hats": middles}
        output["logit"] = output["q"].mean(1)
        output["entropies"] = -(log_length * log_length.exp()).sum(-1, keepdim=True)
        if boundaries:
            output["q_tau_i"] = self._quantiles(obs, ends[:, 1:-1]).detach()
        return output


# The middles are 1/4 and 3/4. The best action in state 1 is action 1 online (1.625 and 6.625 against 3.125 and 4.125),
# and action 0 by the target (4 against 0.125 and 1.125).
ONLINE = [[[0.0, 0.0], [1.0, 4.0]], [[3.0, 2.0], [1.0, 10.0]]]
TARGET = [[[0.0, 0.0], [0.0, 0.0]], [[4.0, 0.0], [0.0, 2.0]]]

# Sample 0 has the quantiles 1 + 4 tau^2: 1.25 and 3.25.
#   Double: 1 + 1/2 (0.125, 1.125): the targets 1.0625 and 1.5625. u of 1.25: -0.1875, 0.3125; of 3.25: -2.1875, -1.6875
#     (3/4 0.017578125 + 1/4 0.048828125) / 2 + 1/4 (1.6875 + 1.1875) / 2 = 0.0126953125 + 0.359375
#   Not double: 1 + 1/2 4 = 3 twice. u of 1.25: 1.75; of 3.25: -0.25. 1/4 1.25 + 1/4 0.03125
# Sample 1 has 3 + 2 tau^2: 3.125 and 4.125, the target -1: u = -4.125 and -5.125. 3/4 3.625 + 1/4 4.625
LOSSES = {True: (0.3720703125, 3.875), False: (0.3203125, 3.875)}
# At the end 1/2 of the intervals: sample 0: 2 against 1.25 and 3.25: 4 - 4.5 = -0.5; sample 1: 3.5 against 3.125 and
# 4.125: 7 - 7.25 = -0.25. Times 1/2: -0.25 and -0.125
FRACTION = -0.1875


def table_policy(*overrides: str) -> Any:
    policy = make_policy(*overrides, model=Table(ONLINE), kind="fqf")
    target_of(policy)["curve"].copy_(torch.tensor(TARGET))
    return policy


@pytest.mark.parametrize("double", LOSSES)
def test_losses_by_hand(double: bool) -> None:
    policy = table_policy(f"double={double}", "learn.ent_coef=0.5")
    loss, output = policy.loss(table_batch("fqf"))
    assert output["priority"].tolist() == pytest.approx(LOSSES[double])
    assert output["quantile_loss"].item() == pytest.approx(sum(LOSSES[double]) / 2)
    assert output["fraction_loss"].item() == pytest.approx(FRACTION)
    assert output["entropy"].tolist() == pytest.approx([math.log(2)] * 2)
    assert loss.item() == pytest.approx(sum(LOSSES[double]) / 2 + FRACTION - 0.5 * math.log(2))


def test_the_gradient_of_the_intervals_by_hand() -> None:
    policy = table_policy()
    policy.learn(table_batch("fqf"))
    # tau_1 is the length p of the first interval, and dp / d logit = p (1 - p) = 1/4 and -1/4. The features are the
    # one-hot states, so that the weights' columns have the samples' gradients -0.5 and -0.25, halved by the mean.
    expected = torch.tensor([[-0.0625, -0.03125], [0.0625, 0.03125]])
    torch.testing.assert_close(policy.model.fraction.weight.grad, expected)


@pytest.mark.parametrize("still", ["fraction", "quantile"])
def test_each_part_has_its_own_learning_rate(still: str) -> None:
    rates = {"fraction": 1e-3, "quantile": 1e-3} | {still: 0.0}
    policy = make_policy(*(f"learn.learning_rate_{part}={rate}" for part, rate in rates.items()), kind="fqf")
    before = {name: each.clone() for name, each in policy.model.named_parameters()}
    output = policy.learn(make_batch(8))
    for name, each in policy.model.named_parameters():
        part = "fraction" if name.startswith("fraction") else "quantile"
        assert torch.equal(each, before[name]) == (part == still), name
    for part, rate in rates.items():
        assert output[f"{part}_learning_rate"].item() == pytest.approx(rate)
        assert f"{part}_learning_rate" in policy.monitor_vars()


def test_the_intervals_are_trained_by_rmsprop_and_all_else_by_adam() -> None:
    state = make_policy(kind="fqf").state_dict()["optimizer"]
    (fraction,), (quantile,) = state["fraction"]["param_groups"], state["quantile"]["param_groups"]
    assert (fraction["alpha"], fraction["eps"]) == (0.95, 1e-5)
    assert (quantile["betas"], quantile["eps"]) == ((0.9, 0.999), pytest.approx(0.01 / 32))


def test_a_model_without_the_layer_of_intervals_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a model with one, but Linear has 0"):
        make_policy(model=nn.Linear(2, 2), kind="fqf")

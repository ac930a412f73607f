"""IQN's loss by hand, on quantile functions that are written down, and the probabilities that it draws."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.policy.helpers import make_batch, make_policy, target_of
from tests.policy.value.test_qrdqn import table_batch


class Table(nn.Module):
    """Quantiles a + b tau written down, `[S, A, 2]`, for one-hot observations; K is 2 while acting."""

    def __init__(self, values: Any) -> None:
        super().__init__()
        self.line = nn.Parameter(torch.tensor(values))

    def forward(self, obs: Tensor, tau: Tensor | None = None) -> dict[str, Tensor]:
        if tau is None:
            tau = torch.tensor([0.25, 0.75]).expand(len(obs), -1)
        start_BA, slope_BA = torch.einsum("bs,sap->pba", obs, self.line)
        q_KBA = start_BA + slope_BA * tau.t()[..., None]
        return {"logit": q_KBA.mean(0), "q": q_KBA, "quantiles": tau.t()[..., None]}


# The best action in state 1 is action 1 online (5 against 4), and action 0 by the target (4 against 1).
ONLINE = [[[0.0, 0.0], [1.0, 4.0]], [[3.0, 2.0], [0.0, 10.0]]]
TARGET = [[[0.0, 0.0], [0.0, 0.0]], [[4.0, 0.0], [0.0, 2.0]]]
TAU = {"online": torch.tensor([[0.25, 0.75], [0.5, 0.5]]), "target": torch.tensor([[0.5, 1.0], [0.5, 1.0]])}


def table_policy(*overrides: str) -> Any:
    policy = make_policy(*overrides, model=Table(ONLINE), kind="iqn")
    target_of(policy)["line"].copy_(torch.tensor(TARGET))
    return policy


# Sample 0 has the quantiles 1 + 4 tau: 2 and 4 for 1/4 and 3/4.
#   Double: 1 + 1/2 (2 tau') for 1/2 and 1: the targets 1.5 and 2. u of 2: -0.5, 0; u of 4: -2.5, -2.
#     kappa 1: 3/4 0.125 / 2 + 1/4 (2 + 1.5) / 2 = 0.046875 + 0.4375
#     kappa 2: 3/4 0.125 / 2 + 1/4 (3 + 2) / 2, over kappa: 0.0234375 + 0.3125
#   Not double: 1 + 1/2 4 = 3 twice. u of 2: 1; u of 4: -1. 1/4 0.5 + 1/4 0.5
# Sample 1 has 4 twice, the target -1: u = -5, weighed by 1/2. kappa 1: 2 * 1/2 4.5; kappa 2: 2 * 1/2 8 / 2
LOSSES = {("True", "1.0"): (0.484375, 4.5), ("False", "1.0"): (0.25, 4.5), ("True", "2.0"): (0.3359375, 4.0)}


@pytest.mark.parametrize("case", LOSSES, ids=str)
def test_loss_by_hand(case: tuple[str, str]) -> None:
    policy = table_policy(f"double={case[0]}", f"learn.kappa={case[1]}", "model.num_quantiles=2")
    loss, output = policy.loss({**table_batch(), "noise": {"tau": TAU}})
    assert output["priority"].tolist() == pytest.approx(LOSSES[case])
    assert loss.item() == pytest.approx(sum(LOSSES[case]) / 2)


def test_probabilities_are_drawn_evenly_for_each_sample_and_both_states() -> None:
    policy = make_policy("model.num_quantiles=50", kind="iqn")
    tau = policy._draw_noise(make_batch(400))["tau"]
    assert {name: each.shape for name, each in tau.items()} == {"online": (400, 50), "target": (400, 50)}
    assert not torch.equal(tau["online"], tau["target"])
    for each in tau.values():
        assert len(each.unique()) > 19_000  # of 20,000
        counts = torch.histc(each, 10, 0, 1)  # 2,000 each, standard deviation 42
        assert (counts - 2000).abs().max() < 250


def test_the_drawn_probabilities_change_the_loss_and_not_the_next_action() -> None:
    policy: Any = make_policy(kind="iqn")
    batch: dict[str, Any] = {**make_batch(8)}
    first, second = ({**batch, "noise": policy._draw_noise(batch)} for _ in range(2))
    assert policy.loss(first)[0] != policy.loss(second)[0]
    assert torch.equal(
        *(policy._outputs(each, {}, {"tau": each["noise"]["tau"]["target"]})[2] for each in (first, second))
    )

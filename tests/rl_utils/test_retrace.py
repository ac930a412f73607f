from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, tensor

from ding_lite.rl_utils import compute_q_retraces

Q = tensor([[[1.0, 3.0]], [[2.0, 4.0]], [[9.0, 9.0]]])
V = tensor([[[2.0]], [[3.0]], [[6.0]]])
REWARD, ACTION, ALIVE = tensor([[1.0], [2.0]]), tensor([[0], [1]]), torch.ones(2, 1)
RATIO = tensor([[[7.0, 7.0]], [[7.0, 0.5]]])


def retrace(**changes: Any) -> list[float]:
    arguments: dict[str, Any] = dict(q_values=Q, v_pred=V, rewards=REWARD, actions=ACTION, weights=ALIVE, ratio=RATIO)
    return compute_q_retraces(**(arguments | dict(gamma=0.5) | changes)).flatten().tolist()


def random_arguments() -> dict[str, Any]:
    gen = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=gen, dtype=torch.float64)

    done, cut = (torch.rand(9, 4, generator=gen) < share for share in (0.1, 0.2))
    flag = done | cut
    v_pred, final = draw(10, 4, 1), draw(9, 4, 1)
    return {
        "q_values": draw(10, 4, 3),
        "v_pred": v_pred,
        "rewards": draw(9, 4),
        "actions": torch.randint(3, (9, 4), generator=gen),
        "weights": 1.0 - done.double(),
        "ratio": draw(9, 4, 3).exp(),
        "next_value": torch.where(flag.unsqueeze(-1), final, v_pred[1:]),
        "traj_flag": flag,
    }


def test_targets_equal_the_recursion_written_naively() -> None:
    data, gamma = random_arguments(), 0.9
    got = compute_q_retraces(**data, gamma=gamma)
    for b in range(4):
        following = data["next_value"][-1, b, 0].item()
        for t in reversed(range(9)):
            if data["traj_flag"][t, b]:
                following = data["next_value"][t, b, 0].item()
            action = int(data["actions"][t, b])
            target = data["rewards"][t, b].item() + gamma * data["weights"][t, b].item() * following
            assert got[t, b, 0].item() == pytest.approx(target)
            rho = min(1.0, data["ratio"][t, b, action].item())
            following = data["v_pred"][t, b, 0].item() + rho * (target - data["q_values"][t, b, action].item())


def test_a_value_that_is_not_finite_does_not_leak_through_a_terminal_step() -> None:
    value = V.clone()
    value[1] = torch.nan
    assert retrace(v_pred=value, weights=tensor([[0.0], [1.0]]))[0] == 1.0

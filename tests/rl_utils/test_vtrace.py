from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, tensor

from ding_lite.rl_utils import (
    sample,
    vtrace_advantage,
    vtrace_data,
    vtrace_nstep_return,
)


def column(*values: float) -> Tensor:
    return tensor(values).unsqueeze(1)


VALUE, REWARD, RHO = column(1.0, 2.0, 4.0), column(1.0, 2.0), column(0.5, 1.0)
FIRST, NEXT_VALUE = column(1, 0).bool(), column(6.0, 4.0)


def random_data(continuous: bool = False) -> vtrace_data:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def logit() -> Tensor | dict[str, Tensor]:
        return {"mu": draw(10, 3, 2), "sigma": draw(10, 3, 2).exp()} if continuous else draw(10, 3, 4)

    target, behaviour = logit(), logit()
    torch.manual_seed(0)
    value, reward, final, weight = draw(11, 3), draw(10, 3), draw(10, 3), draw(10, 3).abs()
    done = torch.rand(10, 3, generator=generator) < 0.15
    traj_flag = done | (torch.rand(10, 3, generator=generator) < 0.15)
    next_value = torch.where(traj_flag, final, value[1:])
    return vtrace_data(target, behaviour, sample(behaviour), value, reward, weight, next_value, done, traj_flag)


@pytest.mark.parametrize("extra", [{}, {"next_value": NEXT_VALUE}, {"next_value": NEXT_VALUE, "traj_flag": FIRST}])
def test_termination_bootstraps_nothing(extra: Any) -> None:
    # delta_0 = 0.5 * (1 - 1) = 0: v_0 = 1 and no advantage
    return_ = vtrace_nstep_return(RHO, RHO, REWARD, VALUE, 0.5, 1.0, done=FIRST, **extra)
    torch.testing.assert_close(return_, column(1.0, 4.0))
    adv = vtrace_advantage(RHO, REWARD, column(4.0, 4.0), VALUE[:-1], 0.5, done=FIRST, **extra)
    torch.testing.assert_close(adv, column(0.0, 2.0))


def test_returns_equal_the_papers_sum() -> None:
    # v_s = V_s + sum over t >= s of gamma^(t-s) (c_s ... c_{t-1}) delta_t
    data: Any = random_data()
    gamma = 0.9
    rho, c = data.weight, data.weight.flip(0)
    delta = rho * (data.reward + gamma * data.value[1:] - data.value[:-1])
    expected = data.value[:-1].clone()
    for s in range(10):
        for t in range(s, 10):
            expected[s] += gamma ** (t - s) * c[s:t].prod(0) * delta[t]
    torch.testing.assert_close(vtrace_nstep_return(rho, c, data.reward, data.value, gamma, 1.0), expected)


def test_a_sequence_over_a_cut_is_its_two_parts() -> None:
    whole: Any = random_data()
    flag = torch.zeros_like(whole.done)
    flag[3] = True
    next_value = whole.value[1:].clone()
    next_value[3] = 7.0
    rho = whole.weight
    cut = vtrace_nstep_return(rho, rho, whole.reward, whole.value, next_value=next_value, traj_flag=flag)
    first_value = torch.cat([whole.value[:4], torch.full((1, 3), 7.0, dtype=torch.float64)])
    first = vtrace_nstep_return(rho[:4], rho[:4], whole.reward[:4], first_value)
    second = vtrace_nstep_return(rho[4:], rho[4:], whole.reward[4:], whole.value[4:])
    torch.testing.assert_close(cut, torch.cat([first, second]))

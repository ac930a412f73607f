from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.rl_utils import vtrace_error_continuous_action, vtrace_error_discrete_action, vtrace_nstep_return
from tests.rl_utils.test_distribution import torchs
from tests.rl_utils.test_vtrace import random_data


def test_a_weight_for_each_sequence_is_that_for_each_of_its_steps() -> None:
    sequences: Any = random_data()
    by_sequence = sequences._replace(weight=sequences.weight[0])
    by_step = sequences._replace(weight=sequences.weight[0].expand(10, 3))
    torch.testing.assert_close(vtrace_error_discrete_action(by_sequence), vtrace_error_discrete_action(by_step))


@pytest.mark.parametrize("continuous", [False, True])
def test_agrees_with_torch_distributions(continuous: bool) -> None:
    data: Any = random_data(continuous)
    error = vtrace_error_continuous_action if continuous else vtrace_error_discrete_action
    (logp, entropy), (old, _) = (torchs(each, data.action) for each in (data.target_output, data.behaviour_output))
    ratio = (logp - old).exp()
    cut = (data.next_value, data.done, data.traj_flag)
    return_ = vtrace_nstep_return(ratio.clamp(max=0.9), ratio.clamp(max=0.8), data.reward, data.value, 0.9, 0.7, *cut)
    # v of the next step, but V of the true next state where the trajectory or the sequence ends there
    follows = torch.where(data.traj_flag, data.next_value, torch.cat([return_[1:], data.next_value[-1:]]))
    adv = ratio.clamp(max=1.2) * (data.reward + 0.9 * (~data.done).double() * follows - data.value[:-1])
    loss = error(data, 0.9, 0.7, 0.9, 0.8, 1.2)
    torch.testing.assert_close(loss.policy_loss, -(data.weight * logp * adv).mean())
    torch.testing.assert_close(loss.value_loss, (data.weight * (return_ - data.value[:-1]) ** 2).mean())
    torch.testing.assert_close(loss.entropy_loss, (data.weight * entropy).mean())

"""Which columns of a data set a policy needs."""

from __future__ import annotations

import pytest
from easydict import EasyDict

from ding_lite.entry.offline.source import check_columns
from ding_lite.policy import BCPolicy, CQLPolicy, DiscreteCQLPolicy, IQLPolicy, Policy, TD3BCPolicy
from ding_lite.utils.registry import ConfigError

SUCCESSORS = [CQLPolicy, DiscreteCQLPolicy, IQLPolicy, Policy, TD3BCPolicy]  # they learn from what follows a step


def config(ignore_done: bool) -> EasyDict:
    return EasyDict(learn=dict(ignore_done=ignore_done), collect=dict(data_path="data.npz"))


@pytest.mark.parametrize("policy_cls", SUCCESSORS)
def test_ignore_done_needs_to_know_what_follows_a_terminal_step(policy_cls: type[Policy]) -> None:
    message = r"policy\.learn\.ignore_done=True .*'data\.npz' has no column next_obs: add it"
    with pytest.raises(ConfigError, match=message):
        check_columns(policy_cls, config(True), {"obs", "action", "reward", "done", "traj_flag"})
    check_columns(policy_cls, config(True), {"obs", "action", "reward", "done", "next_obs"})
    check_columns(policy_cls, config(False), {"obs", "action", "reward", "done", "traj_flag"})


def test_a_policy_that_does_not_look_ahead_needs_no_successors() -> None:
    check_columns(BCPolicy, config(True), {"obs", "action"})

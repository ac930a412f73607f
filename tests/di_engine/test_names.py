from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import torch

from tests.policy.helpers import OBS, make_batch, make_policy, same


def test_di_engines_names_lead_to_the_same_methods() -> None:
    policy, other, obs = make_policy("nstep=1"), make_policy("nstep=1"), np.zeros((2, OBS), np.float32)
    other.load_state_dict(copy.deepcopy(policy.learn_mode.state_dict()))
    for each, learn in ((policy, policy.learn_mode.forward), (other, other.learn)):
        for seed in range(3):
            assert learn(make_batch(8, seed)).keys() >= {"total_loss"}
        assert {*each.learn_mode.monitor_vars()} == {*each.monitor_vars()}
    assert same(list(policy.model.parameters()), list(other.model.parameters()))
    output = policy.collect_mode.forward(obs, eps=0.0)
    policy.collect_mode.reset(np.array([0]))
    assert policy.collect_mode.state_dict().keys() == policy.eval_mode.state_dict().keys() == policy.state_dict().keys()
    policy.eval_mode.reset()
    assert torch.equal(output["action"], policy.eval_mode.forward(obs)["action"])
    timestep = SimpleNamespace(reward=np.ones(2), done=np.zeros(2, bool), traj_flag=np.zeros(2, bool), info={})
    row = policy.collect_mode.process_transition(obs, output, timestep)
    assert row.keys() == {"obs", "action", "reward", "done", "traj_flag"}
    block = {key: torch.as_tensor(value)[None] for key, value in row.items()}
    assert policy.collect_mode.get_train_sample(block) is block

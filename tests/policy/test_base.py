"""What every policy is given by its base: merged defaults, modes, state, and being extended by one method."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ding_lite.policy import DQNPolicy, PGPolicy, Policy
from ding_lite.torch_utils.networks import modules_of
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.policy.helpers import OBS, OURS, compile_for, make_batch, make_cfg, make_policy, parameter_hash


class Halfway(DQNPolicy):
    config = dict(learn=dict(batch_size=7), extra=dict(deep=1))


class Further(Halfway):
    config = dict(extra=dict(other=2))


def test_defaults_of_a_class_and_its_bases_are_merged_and_not_shared() -> None:
    cfg = Further.default_config()
    assert (cfg.learn.batch_size, cfg.learn.target_theta, cfg.extra) == (7, None, {"deep": 1, "other": 2})
    assert (cfg.nstep, "nstep" in Policy.default_config()) == (3, False)  # DQN's own
    clips = [policy.default_config().learn.grad_clip_value for policy in (PGPolicy, Policy)]
    assert clips == [5.0, 0.5]  # the policy gradient's over the base's
    cfg.learn.batch_size = 1
    cfg.extra.deep = 5
    assert Further.default_config().learn.batch_size == 7
    assert Halfway.config == dict(learn=dict(batch_size=7), extra=dict(deep=1))
    assert "extra" not in DQNPolicy.default_config()


def test_fields_that_are_not_enabled_are_not_built() -> None:
    player = DQNPolicy(make_cfg(), enable_field=("eval",))
    assert modules_of(player) == [player.model, player.normalizer]  # no target network
    assert player.act(np.zeros((3, OBS), np.float32), explore=False)["action"].shape == (3,)


def test_the_learning_rate_is_the_configs_and_not_the_checkpoints() -> None:
    own = ("learn.learning_rate=0.25", "learn.weight_decay=0.5", "learn.adam_eps=0.001")
    policy, other = make_policy(), make_policy(*own)
    policy.learn(make_batch(8))
    other.load_state_dict(policy.state_dict())
    (group,) = other.state_dict()["optimizer"]["param_groups"]
    assert (group["lr"], group["weight_decay"], group["eps"]) == (0.25, 0.5, 0.001)


def test_an_optimizers_state_of_another_size_is_refused() -> None:
    policy = make_policy()
    policy.learn(make_batch(8))
    state = policy.state_dict()
    moments = state["optimizer"]["state"][0]
    moments["exp_avg"] = moments["exp_avg"][:-1]
    with pytest.raises(ValueError, match=r"exp_avg: expected shape \(\d+,\), got .*resume_training=False"):
        policy.load_state_dict(state)


@pytest.mark.parametrize("name", OURS)
def test_a_given_model_keeps_its_parameters(name: str) -> None:
    policy_cls, cfg = POLICY_REGISTRY[name], compile_for(name).policy
    model = policy_cls(cfg).model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    before = parameter_hash(model)
    drawn = torch.get_rng_state()
    assert policy_cls(cfg, model).model is model
    assert parameter_hash(model) == before
    assert torch.equal(torch.get_rng_state(), drawn)

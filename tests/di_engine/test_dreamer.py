"""DI-engine's configs of DreamerV3 compile to the keys that the policy has here."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ding_lite.config import compile_config
from ding_lite.entry import serial_pipeline, serial_pipeline_dreamer
from ding_lite.utils import ConfigError
from ding_lite.utils.key import set_key

LEARN = dict(
    lambda_=0.9, learning_rate=2e-4, batch_size=8, batch_length=32, imag_sample=True, discount=0.98, reward_EMA=True
)
POLICY = dict(
    random_collect_size=2500,  # env steps
    model=dict(action_shape=2, actor_dist="onehot"),
    learn=LEARN | dict(slow_target_fraction=0.05, grad_clip=50.0, slow_value_target=True, value_decay=0.0),
    collect=dict(n_sample=1, unroll_len=1, action_size=2, collect_dyn_sample=True),
    other=dict(replay_buffer=dict(replay_buffer_size=64000, periodic_thruput_seconds=60)),
)
MODEL = dict(state_size=4, obs_type="vector", action_size=2, action_type="discrete", reward_size=1, batch_size=16)
MODEL |= dict(model_lr=3e-4, dyn_deter=64, kl_free=0.5, kl_rscale=1.0, kl_lscale=0.2, encoder_hidden_size_list=[32, 16])
MAIN = dict(
    env=dict(env_id="CartPole-v1"),
    policy=POLICY,
    world_model=dict(pretrain=100, train_freq=4, cuda=False, model=MODEL),
)
CREATE = dict(
    policy=dict(type="dreamer", import_names=["ding_lite.policy.mbpolicy.dreamer"]),
    replay_buffer=dict(type="sequence"),
    world_model=dict(type="dreamer", import_names=["ding_lite.world_model.dreamer"]),
)


def compiled(**changes: Any) -> Any:
    pair: Any = copy.deepcopy((MAIN, CREATE))
    for path, value in changes.items():
        set_key(pair[0], path.replace("__", "."), value)
    return compile_config(pair)


def test_the_section_of_the_world_model_sets_keys_of_the_policy() -> None:
    """2,500 env steps are 78 whole sequences of 32, and 64,000 are 2,000."""
    cfg = compiled()
    policy, learn = cfg.policy, cfg.policy.learn
    assert (policy.unroll_len, policy.discount_factor, policy.random_collect_size) == (32, 0.98, 78)
    assert policy.other.replay_buffer == {"type": "sequence_ends", "replay_buffer_size": 2000}
    assert (policy.model.dyn_deter, policy.model.encoder_hidden_size_list) == (64, [32, 16])
    assert (learn.free_nats, learn.dyn_scale, learn.rep_scale) == (0.5, 1.0, 0.2)
    rates = (learn.learning_rate_world, learn.learning_rate_actor, learn.learning_rate_critic)
    assert rates == (3e-4, 2e-4, 2e-4)
    assert (learn.update_per_step, learn.target_theta, learn.grad_clip_value, learn.lambda_) == (0.25, 0.05, 50.0, 0.9)
    assert policy.collect.n_sample is None
    assert "world_model" not in cfg
    assert "count sequences" in " ".join(cfg.notes)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("policy__learn__value_decay", 0.1, r"policy\.learn\.value_decay: expected 0\.0, got float 0\.1"),
        ("policy__learn__imag_sample", False, r"policy\.learn\.imag_sample: expected True, got bool False"),
        ("world_model__model__dyn_cell", "gru", r"world_model\.model\.dyn_cell has no counterpart here: leave it out"),
    ],
)
def test_what_has_no_counterpart_is_one_line(key: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        compiled(**{key: value})


def test_the_name_of_the_pipeline_is_another_one_of_the_usual_one() -> None:
    assert serial_pipeline_dreamer is serial_pipeline

"""DI-engine's names of pipelines, and of a policy's methods: what its learner, collector and evaluator call."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from ding_lite.policy.base import Policy
from ding_lite.run.serial_entry import serial_pipeline, serial_pipeline_onpolicy

serial_pipeline_onpolicy_ppg = serial_pipeline_reward_model_onpolicy = serial_pipeline_onpolicy
serial_pipeline_preference_based_irl_onpolicy = serial_pipeline_onpolicy
serial_pipeline_reward_model_offpolicy = serial_pipeline_preference_based_irl = serial_pipeline
serial_pipeline_dreamer = serial_pipeline_ngu = serial_pipeline


def learn_mode(policy: Policy) -> SimpleNamespace:
    """Return what DI-engine's learner calls."""
    return _mode(policy, forward=policy.learn, monitor_vars=policy.monitor_vars)


def collect_mode(policy: Policy) -> SimpleNamespace:
    """Return what DI-engine's collector calls."""
    rows = {"process_transition": policy.to_row, "get_train_sample": policy.to_samples}
    return _mode(policy, forward=policy.act, reset=policy.reset, **rows)


def eval_mode(policy: Policy) -> SimpleNamespace:
    """Return what DI-engine's evaluator calls."""
    return _mode(policy, forward=partial(policy.act, explore=False), reset=partial(policy.reset, explore=False))


def _mode(policy: Policy, **methods: Any) -> SimpleNamespace:
    return SimpleNamespace(state_dict=policy.state_dict, load_state_dict=policy.load_state_dict, **methods)

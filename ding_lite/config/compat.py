"""What DI-engine's config files may say and ding_lite does not need: one table per kind of difference.

A key that a class in use declares itself never reaches these tables.
"""

from __future__ import annotations

from typing import Any

# Keys that change nothing here: (the only value that is accepted, or Any; why).
IGNORED_KEYS: dict[str, tuple[Any, str]] = {
    "create_config.collector": (Any, "the policy chooses its collector"),
    "create_config.commander": (Any, "there is no commander"),
    "create_config.evaluator": (Any, "there is one evaluator"),
    "create_config.learner": (Any, "there is one learner"),
    "env.is_train": (Any, "collecting and evaluating environments differ by themselves"),
    "env.manager.auto_reset": (True, "environments always reset themselves"),
    "env.manager.connect_timeout": (Any, "workers are started by gymnasium"),
    "env.manager.context": (Any, "gymnasium chooses how workers start"),
    "env.manager.copy_on_get": (Any, "the collector copies every observation once"),
    "env.manager.episode_num": (Any, "episodes are counted by collector and evaluator"),
    "env.manager.max_retry": (Any, "a failed environment ends the run with its error"),
    "env.manager.reset_inplace": (Any, "environments always reset themselves"),
    "env.manager.reset_timeout": (Any, "env.manager.step_timeout covers resets"),
    "env.manager.retry_type": (Any, "a failed environment ends the run with its error"),
    "env.manager.retry_waiting_time": (Any, "a failed environment ends the run with its error"),
    "env.manager.shared_memory": (Any, "subprocess environments always use shared memory"),
    "env.manager.step_wait_timeout": (Any, "env.manager.step_timeout covers every step"),
    "env.manager.wait_num": (Any, "environments step together"),
    "policy.collect.collector": (Any, "the collector has no options of its own"),
    "policy.collect.env_num": (Any, "env.collector_env_num says it"),
    "policy.collect.unroll_len": (1, "one step is one sample"),
    "policy.eval.env_num": (Any, "env.evaluator_env_num says it"),
    "policy.eval.evaluator.figure_path": (None, "evaluation draws no figures"),
    "policy.eval.evaluator.render": (False, "evaluation does not render"),
    "policy.learn.ignore_done": (False, "time limits never cut the bootstrap"),
    "policy.learn.learner": (Any, "checkpoints and logs are arguments of the pipeline"),
    "policy.on_policy": (False, "the policy class says it"),
    "policy.other.commander": (Any, "there is no commander"),
    "policy.other.replay_buffer.deepcopy": (Any, "samples are copied out of arrays"),
    "policy.other.replay_buffer.enable_track_used_data": (Any, "used data is not tracked"),
    "policy.other.replay_buffer.monitor": (Any, "the buffer logs its own figures"),
    "policy.other.replay_buffer.periodic_thruput_seconds": (Any, "the collector logs its rate"),
    "policy.other.replay_buffer.thruput_controller": (Any, "collecting and learning alternate"),
    "policy.traj_len_inf": (False, "blocks may cut trajectories"),
    "policy.transition_with_policy_data": (Any, "a transition holds what the policy puts there"),
}
# Older or alternative names, moved to the name used here.
RENAMED_KEYS = {
    "policy.learn.multi_gpu": "policy.multi_gpu",
    "policy.learn.bp_update_sync": "policy.bp_update_sync",
    "policy.use_cuda": "policy.cuda",
    "policy.use_priority": "policy.priority",
    "policy.learn.priority": "policy.priority",
    "policy.learn.priority_IS_weight": "policy.priority_IS_weight",
    "policy.eval.evaluator.n_episode": "env.n_evaluator_episode",
    "policy.eval.evaluator.stop_value": "env.stop_value",
}
# Environment managers: every name that is accepted, and what it is here.
MANAGERS = {
    "base": "base",
    "native": "native",
    "subprocess": "subprocess",
    "async_subprocess": "subprocess",
    "base_v2": "base",
    "env_pool": "native",
    "gym_vector": "subprocess",
    "subprocess_v2": "subprocess",
}

"""Tables of the keys of DI-engine's config files that have another name or no meaning here.

A key that a class in use declares itself never reaches these tables.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Container
from types import ModuleType
from typing import Any

from ding_lite.config.schema import BUFFER, UNSET, Schema, get_key, merge, set_key
from ding_lite.utils.key import show
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError, closest

# Keys that change nothing here: (the only value that is accepted, a tuple of several, or Any; why).
IGNORED_KEYS: dict[str, tuple[Any, str]] = {
    "create_config.collector": (Any, "the policy chooses its collector"),
    "create_config.commander": (Any, "there is no commander"),
    "create_config.evaluator": (Any, "there is one evaluator"),
    "create_config.learner": (Any, "there is one learner"),
    "env.is_train": (Any, "collecting and evaluating environments differ by themselves"),
    "env.manager.auto_reset": (True, "environments always reset themselves"),
    "env.manager.connect_timeout": (Any, "a worker has a minute for its first answer"),
    "env.manager.context": (Any, "workers are always forked by a light process"),
    "env.manager.copy_on_get": (Any, "the collector copies every observation once"),
    "env.manager.episode_num": (Any, "episodes are counted by collector and evaluator"),
    "env.manager.reset_inplace": (Any, "environments always reset themselves"),
    "env.manager.reset_timeout": (Any, "env.manager.step_timeout covers resets"),
    "env.manager.retry_type": (Any, "a failed environment gets a new process and a new episode"),
    "env.manager.retry_waiting_time": (Any, "a failed environment is started again at once"),
    "env.manager.shared_memory": (Any, "subprocess environments always use shared memory"),
    "env.manager.step_wait_timeout": (Any, "env.manager.step_timeout covers every step"),
    "env.manager.wait_num": (Any, "environments step together"),
    "env.norm_obs": (
        ({"use_norm": False}, {"use_norm": True, "offline_stats": {"use_offline_stats": True}}),
        "observations are learned from as they are",
    ),
    "env.norm_reward": ({"use_norm": False}, "rewards are learned from as they are"),
    "env.replay_path": (Any, "no videos are recorded"),
    "policy.collect.collector": (Any, "the collector has no options of its own"),
    "policy.collect.collector_env_num": (Any, "env.collector_env_num says it"),
    "policy.collect.collector_logit": (False, "a data set holds what the policy that learns from it needs"),
    "policy.collect.env_num": (Any, "env.collector_env_num says it"),
    "policy.collect.gae_lambda": (Any, "this policy estimates no advantages by it"),
    "policy.collect.nstep": (1, "policy.nstep says it, where a policy sums n-step returns"),
    "policy.collect.nstep_return": (False, "values learn from generalised advantage estimates"),
    "policy.collect.unroll_len": (1, "one step is one sample"),
    "policy.command": (Any, "there is no commander"),
    "policy.eval.env_num": (Any, "env.evaluator_env_num says it"),
    "policy.eval.evaluator.figure_path": (None, "evaluation draws no figures"),
    "policy.eval.evaluator.render": (False, "evaluation does not render"),
    "policy.eval.evaluator_env_num": (Any, "env.evaluator_env_num says it"),
    "policy.learn.betas": ([0.9, 0.999], "Adam has its usual coefficients"),
    "policy.learn.epoch_per_collect": (Any, "this policy passes over each collect once, or over a buffer"),
    "policy.learn.eps": (1e-8, "Adam has its usual constant"),
    "policy.learn.nstep": (1, "policy.nstep says it, where a policy sums n-step returns"),
    "policy.learn.nstep_return": (False, "values learn from generalised advantage estimates"),
    "policy.learn.optim": ("adam", "Adam is the optimizer"),
    "policy.learn.update_per_collect": (1, "an on-policy policy learns from each collect once, in epochs"),
    "policy.learn.learner.cfg_type": (Any, "types are told by create_config"),
    "policy.learn.learner.dataloader": (Any, "batches are drawn from arrays"),
    "policy.learn.learner.hook.log_reduce_after_iter": (Any, "figures are those of all ranks anyway"),
    "policy.learn.learner.hook.save_ckpt_after_run": (True, "the last checkpoint is always saved"),
    "policy.learn.learner.log_policy": (Any, "the policy is not logged"),
    "policy.learn.learner.train_iterations": (Any, "max_train_iter is an argument of the pipeline"),
    "policy.load_path": (Any, "policy.learn.learner.hook.load_ckpt_before_run says it"),
    "policy.multi_agent": (False, "there is one agent"),
    "policy.nstep": (Any, "this policy sums no n-step returns"),
    "policy.nstep_return": (False, "values learn from generalised advantage estimates"),
    "policy.other.commander": (Any, "there is no commander"),
    "policy.other.replay_buffer": (Any, "this policy has no replay buffer"),
    "policy.other.replay_buffer.deepcopy": (Any, "samples are copied out of arrays"),
    "policy.other.replay_buffer.enable_track_used_data": (Any, "used data is not tracked"),
    "policy.other.replay_buffer.import_names": (Any, "policy.import_names says it"),
    "policy.other.replay_buffer.max_use": (Any, "samples are used until they are overwritten"),
    "policy.other.replay_buffer.monitor": (Any, "the buffer logs its own figures"),
    "policy.other.replay_buffer.periodic_thruput_seconds": (Any, "the collector logs its rate"),
    "policy.other.replay_buffer.sliced": (Any, "sequences are cut when sampled"),
    "policy.other.replay_buffer.thruput_controller": (Any, "collecting and learning alternate"),
    "policy.priority": (False, "this policy has no prioritised replay"),
    "policy.priority_IS_weight": (False, "this policy has no prioritised replay"),
    "policy.random_collect_size": (Any, "this policy does not start with random actions"),
    "policy.traj_len_inf": (False, "blocks may cut trajectories"),
    "policy.transition_with_policy_data": (Any, "a transition holds what the policy puts there"),
}
# Older or alternative names, moved to the name used here.
RENAMED_KEYS = {
    "env.use_act_scale": "env.act_scale",
    "policy.learn.multi_gpu": "policy.multi_gpu",
    "policy.learn.bp_update_sync": "policy.bp_update_sync",
    "policy.use_cuda": "policy.cuda",
    "policy.use_priority": "policy.priority",
    "policy.learn.priority": "policy.priority",
    "policy.learn.priority_IS_weight": "policy.priority_IS_weight",
    "policy.action_space": "policy.model.action_space",
    "policy.collect.discount_factor": "policy.discount_factor",
    "policy.learn.clip_value": "policy.learn.grad_clip_value",
    "policy.learn.discount_factor": "policy.discount_factor",
    "policy.learn.grad_norm": "policy.learn.grad_clip_value",
    "policy.learn.normalize_advantage": "policy.learn.adv_norm",
    "policy.eval.evaluator.n_episode": "env.n_evaluator_episode",
    "policy.eval.evaluator.stop_value": "env.stop_value",
}
# Keys of `policy` that select the training loop: True for the policies of that pipeline.
LOOP_KEYS = {"on_policy": "serial_pipeline_onpolicy", "offline": "serial_pipeline_offline"}
# env.env_id: versions that gymnasium has retired, and the ones that took their place.
RENAMED_IDS = {
    "Pendulum-v0": "Pendulum-v1",
    "LunarLander-v2": "LunarLander-v3",
    "LunarLanderContinuous-v2": "LunarLanderContinuous-v3",
    **{f"{name}-v{n}": f"{name}-v5" for name in ("Hopper", "HalfCheetah", "Walker2d", "Ant") for n in (2, 3)},
}
# create_config's types: every accepted name, and the name used here. No buffer type is the one that
# policy.priority asks for.
TYPES: dict[str, dict[str, str]] = {
    "env_manager": {
        "base": "base",
        "native": "native",
        "subprocess": "subprocess",
        "async_subprocess": "subprocess",
        "base_v2": "base",
        "env_pool": "native",
        "gym_vector": "subprocess",
        "subprocess_v2": "subprocess",
    },
    "replay_buffer": {"advanced": "", "deque": "", "naive": ""},
}


def translate_create(create: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return the part of the config that `create_config` determines; add a note for everything that is translated.

    Raises:
        ConfigError: an unknown key or environment manager.
    """
    for key, value in create.items():
        if not isinstance(value, dict):
            raise ConfigError(f"create_config.{key}: expected a dict such as dict(type=...), got {show(value)}.")
        if key not in ("env", "env_manager", "policy", "replay_buffer", "reward_model"):
            if f"create_config.{key}" not in IGNORED_KEYS:
                raise ConfigError(
                    f"Unknown key 'create_config.{key}'.{closest(key, ('policy', 'reward_model', *TYPES))}"
                )
            notes.append(f"create_config.{key} is ignored: {IGNORED_KEYS[f'create_config.{key}'][1]}.")
    parts = {key: dict(create.get(key, {})) for key in ("env", "env_manager", "policy", "replay_buffer")}
    for key, known in TYPES.items():
        name = parts[key].get("type", "")
        if not isinstance(name, str):
            raise ConfigError(f"create_config.{key}.type: expected a name, got {show(name)}.")
        if known.get(name, name) != name:
            notes.append(f"create_config.{key}.type '{name}' is '{known[name] or 'as policy.priority says'}' here.")
            parts[key]["type"] = known[name]
    name = parts["env_manager"].get("type", "base")
    if name not in TYPES["env_manager"]:
        raise ConfigError(f"Unknown create_config.env_manager.type '{name}'.{closest(name, TYPES['env_manager'])}")
    name = parts["policy"].get("type")
    if isinstance(name, str) and name.endswith("_command"):
        parts["policy"]["type"] = name.removesuffix("_command")
        notes.append(f"create_config.policy.type '{name}' is '{parts['policy']['type']}' here.")
    cfg: dict[str, Any] = {"env": {"manager": parts["env_manager"]}, "policy": {}}
    if "reward_model" in create:
        cfg["reward_model"] = create["reward_model"]
    if parts["replay_buffer"]:
        set_key(cfg, BUFFER, parts["replay_buffer"])
    return merge(cfg, {"env": parts["env"], "policy": parts["policy"]})


def rename_keys(user: dict[str, Any], known: Container[str], notes: list[str]) -> None:
    """Move the values of `RENAMED_KEYS` in `user` to the names used here, and `RENAMED_IDS` to their successors.

    Args:
        user: what the user set, nested; changed in place.
        known: dotted keys that the classes in use declare.
        notes: a sentence about each is appended.

    Raises:
        ConfigError: old and new name are both set, to different values.
    """
    for old, new in RENAMED_KEYS.items():
        value = get_key(user, old, UNSET)
        if value is UNSET or old in known or new not in known:
            continue
        if get_key(user, new, value) != value:
            raise ConfigError(f"{old}={value!r} contradicts {new}={get_key(user, new)!r}: set '{new}' only.")
        parent, _, last = old.rpartition(".")
        del get_key(user, parent)[last]
        set_key(user, new, value)
        notes.append(f"{old} is {new} here.")
    env_id = get_key(user, "env.env_id")
    if isinstance(env_id, str) and env_id in RENAMED_IDS:
        set_key(user, "env.env_id", RENAMED_IDS[env_id])
        notes.append(f"env.env_id '{env_id}' is '{RENAMED_IDS[env_id]}' here: gymnasium has retired the old version.")


def take_loop_keys(user: dict[str, Any], schema: Schema) -> None:
    """Remove `policy.on_policy` and `policy.offline` from `user`: the policy's class names its loop.

    Raises:
        ConfigError: one of them contradicts the class.
    """
    policy_type = schema["policy.type"].default
    pipeline = POLICY_REGISTRY.find(policy_type).pipeline
    for name, loop in LOOP_KEYS.items():
        path, right = f"policy.{name}", pipeline == loop
        if path in schema and schema[path].default != right:
            raise ConfigError(
                f"The class of policy '{policy_type}' declares {name}={not right}, but is trained by {pipeline}: set "
                f"its attribute `pipeline`, such as pipeline = '{loop}'."
            )
        value = get_key(user, path, right)
        if value != right:
            raise ConfigError(f"{path} cannot be set: of '{policy_type}' it is {right}.")
        if path not in schema and isinstance(user.get("policy"), dict):
            user["policy"].pop(name, None)


def import_module(name: str) -> ModuleType:
    """Import a module that `import_names` lists. DI-engine's paths of modules of this package are accepted.

    `ding_lite.policy.cql`, for instance, imports `ding_lite.policy.offline.cql`.

    Raises:
        ImportError: there is none of this name.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package, _, rest = name.removeprefix("ding_lite.").partition(".")
        if (
            error.name is None
            or not rest
            or not name.startswith(f"ding_lite.{package}.")
            or not name.startswith(error.name)
        ):
            raise
        room = importlib.import_module(f"ding_lite.{package}")
        last = rest.rpartition(".")[2]
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if found.name.endswith(f".{last}"):
                return importlib.import_module(found.name)
        raise

"""Translates keys of DI-engine's config files that have a different name or no meaning in ding_lite.

A key that is declared by one of the config's classes is never translated. The functions change `user`, the nested keys
that the user set, in place, and append a sentence to `notes` for every value that they translate or ignore.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from gymnasium.spaces import Discrete

from ding_lite.config.schema import BUFFER, ENCODER, UNSET, Schema, merge
from ding_lite.envs.builders import MANAGERS
from ding_lite.envs.masks import find_mask_space
from ding_lite.envs.spaces import EnvSpec
from ding_lite.utils.key import get_key, matches, pop_key, set_key, show, show_value
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError, closest


def _expand(paths: str) -> list[str]:
    """Return keys separated by spaces; 'policy.{collect,learn}.nstep' is two keys, as in a shell."""
    words = [[*re.split("[{}]", path), "", ""][:3] for path in paths.split()]
    return [head + word + tail for head, group, tail in words for word in group.split(",")]


# Keys that have no effect, whatever their value, and the reason.
_IGNORED = {
    "create_config.collector": "the policy chooses its collector",
    "create_config.{commander,evaluator,learner}": "there is one learner, which also evaluates, and no commander",
    "env.{collector_batch_size,evaluator_batch_size,manager.wait_num}": "all environments step together",
    "env.exp_name": "exp_name sets it",
    "env.is_train": "environments know whether they collect or evaluate",
    "env.manager.cfg_type policy.learn.learner.cfg_type": "create_config contains the types",
    "env.manager.connect_timeout": "a worker has one minute to start",
    "env.manager.context": "workers are always forked from a small process",
    "env.{manager.copy_on_get,manager.shared_memory,shared_memory}": "workers share memory; it is copied once",
    "env.manager.episode_num": "episodes are counted by collector and evaluator",
    "env.manager.reset_inplace": "environments always reset themselves",
    "env.manager.{reset_timeout,step_wait_timeout}": "env.manager.step_timeout limits every reset and step",
    "env.manager.{retry_type,retry_waiting_time}": "a failed environment restarts at once, with a new episode",
    "env.{save_replay_gif,save_replay_path}": "env.replay_path says where mp4 files are recorded",
    "reward_model.{action_shape,obs_shape} policy.agent_num": "the environment determines it",
    "reward_model.intrinsic_reward_rescale": "intrinsic_reward_weight is the weight of a bonus",
    "reward_model.clear_buffer_per_iters": "a reward model learns from the newest steps",
    "reward_model.{obs_norm,obs_norm_clamp_max,obs_norm_clamp_min}": "this one does not normalise observations",
    "policy.{command,other.commander}": "there is no commander",
    "policy.collect.{collect_count,expert_data_path}": "it is an argument of collect_demo_data",
    "policy.collect.data_path": "this policy does not learn from a data set",
    "policy.collect.data_type": "collect_demo_data chooses the format by the name of the file",
    "policy.collect.{model_path,state_dict_path}": "collect_demo_data takes the path of the checkpoint",
    "policy.collect.save_path": "only collect_demo_data reads it, if it is given no path",
    "policy.collect.collector": "the collector has no options of its own",
    "policy.collect.{collector_env_num,env_num}": "env.collector_env_num sets it",
    "policy.collect.gae_lambda": "this policy does not use generalised advantage estimation",
    "policy.collect.noise_sigma": "this policy adds no noise to its actions",
    "policy.collect.traj_len_inf policy.other.replay_buffer.sliced": "sequences are cut when they are sampled",
    "policy.eval.{env_num,evaluator_env_num}": "env.evaluator_env_num sets it",
    "policy.eval.evaluator.render": "evaluation does not render",
    "policy.expert_random_collect_size": "the expert's steps are those of a data set",
    "policy.learn.alpha": "this policy has no temperature",
    "policy.learn.{decay_epoch,decay_rate,warmup_epoch,warmup_lr}": "a schedule of policy.learn.learning_rate sets it",
    "policy.learn.epoch_per_collect": "this policy has no epochs",
    "policy.learn.update_per_collect": "this policy learns in epochs",
    "policy.learn.init_w": "the model initialises its own layers",
    "policy.learn.init_memory": "replay stores the memory of every step",
    "policy.learn.learning_rate_alpha": "this policy does not weigh its entropy",
    "policy.learn.lambda_": "this policy's returns have no lambda",
    "policy.learn.learner.dataloader": "batches are drawn from arrays",
    "policy.learn.learner.hook.log_reduce_after_iter": "figures are always averaged over all ranks",
    "policy.learn.learner.hook.save_ckpt_after_run": "the last checkpoint is always saved",
    "policy.learn.learner.log_policy": "the policy is not logged",
    "policy.learn.learner.train_iterations": "max_train_iter is an argument of the pipeline",
    "policy.{load_path,learn.learner.load_path}": "policy.learn.learner.hook.load_ckpt_before_run sets it",
    "policy.model.global_obs_shape": "this policy has a single agent, which sees obs_shape",
    "policy.nstep": "this policy does not use n-step returns",
    "policy.other.eps": "this policy does not explore with random actions",
    "policy.other.eps.collect": "collect_demo_data records with exploration if explore=True",
    "policy.other.replay_buffer": "this policy has no replay buffer",
    "policy.other.replay_buffer.{alpha,anneal_step,beta}": "without priorities, samples are drawn uniformly",
    "policy.other.replay_buffer.cfg_type": "create_config contains the types",
    "policy.other.replay_buffer.deepcopy": "samples are always copies",
    "policy.other.replay_buffer.enable_track_used_data": "used data is not tracked",
    "policy.other.replay_buffer.import_names": "policy.import_names sets it",
    "policy.other.replay_buffer.{max_reuse,max_use}": "samples are used until they are overwritten",
    "policy.other.replay_buffer.{monitor,periodic_thruput_seconds}": "buffer and collector log figures of their own",
    "policy.other.replay_buffer.thruput_controller": "collecting and learning alternate",
    "policy.random_collect_size": "this policy does not start with random actions",
    "policy.recompute_adv": "this policy computes advantages once for each collect",
    "policy.transition_with_policy_data": "the policy decides what a transition contains",
    "policy.logger wandb_logger": "tracker.type='wandb' records the figures in Weights & Biases",
}
# The same for keys of which only one value is accepted, or those of a tuple.
_FIXED: dict[str, tuple[Any, str]] = {
    "env.env_wrapper": (("mujoco_default", "atari_default"), "the environment has its own wrappers"),
    "env.manager.auto_reset": (True, "environments always reset themselves"),
    "policy.aux_model.loss_type": ("infonce", "it is the only contrastive loss"),
    "policy.collect.collector_logit": (False, "a data set contains what its policy needs"),
    "policy.{collect.nstep,learn.nstep}": (1, "policy.nstep sets it, where a policy sums n-step returns"),
    "policy.{,collect.,learn.}nstep_return": (False, "values learn from generalised advantage estimates"),
    "policy.collect.unroll_len": (1, "one step is one sample"),
    "policy.continuous": (False, "policy.model.action_space says it"),
    "policy.eval.evaluator.figure_path": (None, "evaluation draws no figures"),
    "policy.learn.data_path": (None, "policy.collect.data_path sets it"),
    "policy.learn.lr_decay": (False, "a schedule of policy.learn.learning_rate sets it"),
    "policy.learn.iqn": (False, "this policy learns the probabilities of fixed returns, not quantiles"),
    "policy.learn.log_space": (True, "alpha is learned as its logarithm"),
    "policy.learn.reparameterization": (True, "actions are differentiable functions of the actor's output"),
    "policy.learn.value_network": (False, "there is no separate value network"),
    "policy.model.dropout": (None, "the models have no dropout"),
    "policy.model.use_lstm": (False, "this policy has no memory"),
    "policy.model.share_encoder": (False, "actor and critics have separate encoders"),
    "policy.multi_agent": (False, "this policy has a single agent"),
    "policy.other.replay_buffer.max_staleness": ((1e9, float("inf")), "samples are used until they are overwritten"),
    "policy.{priority,priority_IS_weight}": (False, "this policy has no prioritised replay"),
    "policy.{reward_batch_norm,use_reward_batch_norm}": (False, "rewards are not normalised"),
    "policy.traj_len_inf": (False, "blocks may cut trajectories"),
}
# Keys that have no effect, each with the value that is accepted (or a tuple of values, or Any) and the reason.
IGNORED_KEYS = {path: (Any, reason) for paths, reason in _IGNORED.items() for path in _expand(paths)} | {
    path: fixed for paths, fixed in _FIXED.items() for path in _expand(paths)
}
# Keys that have no effect for policies that declare another key, which is named first; and the reason.
REDUNDANT_KEYS = {
    "policy.collect.n_sample": ("policy.collect.data_path", "this policy learns from a data set"),
    "policy.collect.n_episode": ("policy.unroll_len", "policy.collect.n_sample counts sequences, which replay stores"),
    "policy.collect.unroll_len": ("policy.learn.value_rescale", "policy.burnin_step and policy.unroll_len say it"),
    **dict.fromkeys(
        ("policy.collect.reward_norm", "env.reward_norm"),
        ("policy.rtg_scale", "returns are in the environment's units, as policy.rtg_target is"),
    ),
}
# The names of keys used here, and older or alternative ones.
_RENAMED = {
    "env.max_episode_steps": "env.max_step",
    "env.act_scale": "env.use_act_scale",
    "env.n_evaluator_episode": "policy.eval.evaluator.n_episode",
    "env.stop_value": "policy.eval.evaluator.stop_value",
    "policy.bp_update_sync": "policy.learn.bp_update_sync",
    "policy.collect.n_sample": "policy.collect.each_iter_n_sample",
    "policy.collect.reward_norm": "env.reward_norm",
    "policy.cuda": "policy.use_cuda",
    "policy.discount_factor": "policy.{collect,learn}.discount_factor",
    "policy.learn.adam_eps": "policy.learn.eps",
    "policy.learn.adv_norm": "policy.learn.normalize_advantage",
    "policy.learn.aux_bc_weight": "policy.learn.beta_weight",
    "policy.learn.aux_train_epoch": "policy.learn.epochs_aux",
    "policy.learn.epoch_per_collect": "policy.learn.{actor,critic}_epoch_per_collect",
    "policy.learn.grad_clip_value": "policy.learn.{clip_value,grad_norm}",
    "policy.learn.kappa": "policy.kappa",
    "policy.learn.optimizer": "policy.learn.optim",
    "policy.learn.target_theta": "policy.learn.target_update_theta",
    "policy.model.action_space": "policy.{action_space,learn.action_space,model.actor_head_type}",
    "policy.model.encoder_hidden_size_list": "policy.model.{actor_,}hidden_size_list",
    "policy.model.obs_shape": "policy.model.agent_obs_shape",
    "policy.multi_gpu": "policy.learn.multi_gpu",
    "policy.priority": "policy.{use_priority,learn.priority}",
    "policy.priority_IS_weight": "policy.learn.priority_IS_weight",
    "policy.unroll_len": "policy.{collect.unroll_len,learn.unroll_len,learn_unroll_len}",
}
RENAMED_KEYS = {old: new for new, paths in _RENAMED.items() for old in _expand(paths)}
# DI-engine's linear decays by collect: each with the name of its final share, and the number that it multiplies.
SCHEDULERS = {
    "policy.learn.lr_scheduler": ("min_lr_lambda", "policy.learn.learning_rate"),
    "policy.learn.clip_scheduler": ("min_clip_lambda", "policy.learn.clip_ratio"),
}
# Sections that accept `True` or `False` for their key `use_norm`.
SWITCHES = ("env.norm_obs", "env.norm_reward")
# Keys of `policy` that select the training loop in DI-engine; each is True for policies that learn from this.
LOOP_KEYS = {"on_policy": "collect", "offline": "dataset"}
STATE_OF_EACH = "env.special_global_state"
RESIZED = ("Ant", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum")  # observations of -v5 have another length
MUJOCO = (*RESIZED, "HalfCheetah", "Hopper", "InvertedPendulum", "Pusher", "Reacher", "Swimmer", "Walker2d")
# Values of env.env_id: versions that gymnasium has retired, and their successors.
RENAMED_IDS = {
    "Pendulum-v0": "Pendulum-v1",
    "CliffWalking": "CliffWalking-v1",
    "CliffWalking-v0": "CliffWalking-v1",
    "Taxi-v3": "Taxi-v4",
    "LunarLander-v2": "LunarLander-v3",
    "LunarLanderContinuous-v2": "LunarLanderContinuous-v3",
    "CarRacing-v2": "CarRacing-v3",
    **{f"{name}-v{n}": f"{name}-v{4 if name in RESIZED else 5}" for name in MUJOCO for n in (2, 3)},
}
# D4RL's names of robots, which stand before the kind of data in env.env_id: gymnasium's, and those of Minari's data.
D4RL = {name.lower(): (f"{name}-v5", "mujoco/{}/{}-v0") for name in ("Ant", "HalfCheetah", "Hopper", "Walker2d")}
for _hand in ("Pen", "Door", "Hammer", "Relocate"):
    D4RL[_hand.lower()] = (f"gymnasium_robotics:AdroitHand{_hand}-v1", "D4RL/{}/{}-v2")
FIRST_ACTIONS = "ding_lite.envs.actions:FirstActions"
OLD_ANTS, CONTACTS = ("Ant-v2", "Ant-v3"), "env.kwargs.use_contact_forces"  # off by default in Ant-v4
# Values of DI-engine's that have no counterpart. The default counts instead, and the reason.
WITHOUT_COUNTERPART = {
    "policy.eval.evaluator.eval_freq": (-1, "evaluations have an interval of iterations"),
    "reward_model.intrinsic_reward_weight": (None, "bonuses are divided by the deviation of their discounted sums"),
}
# Policies whose class in DI-engine also takes action_space='hybrid', and the policy that does so here.
HYBRID_POLICIES = {"ddpg": "paddpg"}
# Policies whose class in DI-engine reads policy.learn.discount_factor, and not policy.discount_factor.
LEARN_DISCOUNT = ("acer", "bcq", "coma", "cql", "d4pg", "ddpg", "edac", "impala", "iql", "madqn", "qmix", "sac", "td3")
# Policies that have another class if their networks have a memory.
RECURRENT_POLICIES = {"sac": "recurrent_sac", "td3": "recurrent_td3"}
# Keys of DI-engine's classes of these policies, and their names here; of several values the first counts. Empty: none.
POLICY_KEYS = {
    "coma": {
        "policy.model.obs_shape.global_state": "policy.model.global_obs_shape",
        "policy.model.obs_shape.agent_state": "policy.model.obs_shape",
        **dict.fromkeys(("policy.collect.n_episode", "policy.collect.unroll_len"), ""),
    },
    "dt": {
        "policy.model.context_len": "policy.context_len",
        "dataset.context_len": "policy.context_len",
        "dataset.rtg_scale": "policy.rtg_scale",
        "dataset.data_dir_prefix": "policy.collect.data_path",
        "policy.learn.dataset_path": "policy.collect.data_path",
        "policy.max_timestep": "policy.model.max_timestep",
        "policy.model.state_dim": "policy.model.obs_shape",
        "policy.model.act_dim": "policy.model.action_shape",
        "policy.batch_size": "policy.learn.batch_size",
        "policy.learn.learning_rate": "",
        "policy.learning_rate": "policy.learn.learning_rate",
        "policy.wt_decay": "policy.learn.weight_decay",
        "policy.clip_grad_norm_p": "policy.learn.grad_clip_value",
    }
    | dict.fromkeys(_expand(
        "policy.{stop_value,env_name,evaluator_env_num,state_std,max_eval_ep_len,weight_decay,device,log_dir,kappa} "
        "policy.{num_eval_ep,num_updates_per_iter,n_blocks,embed_dim,n_heads,dropout_p,min_q_weight} "
        "policy.{dataset,lr,max_test_ep_len} "
        "policy.{,learn.}target_update_freq policy.{learn.kappa,learn.min_q_weight,eval.evaluator.evalu_freq} "
        "policy.{model.continuous,collect.data_type} dataset env.{env_name,episode_num}"
    ), ""),
    "r2d2_gtrxl": {
        "policy.model.att_layer_num": "policy.model.memory.layer_num",
        "policy.model.att_head_num": "policy.model.memory.head_num",
        "policy.model.gru_bias": "policy.model.memory.gate_bias",
        **dict.fromkeys(_expand("policy.model.{dropout,att_head_dim,att_mlp_num,gru_gating}"), ""),
    },
}  # fmt: skip
# What DI-engine's class `r2d2_gtrxl` and its model have where a config says nothing.
GTRXL_DEFAULTS = {
    "policy.seq_len": 20,
    "policy.learn.value_rescale": False,
    "policy.model.hidden_size": 16,
    "policy.model.memory_len": 64,
    "policy.model.att_layer_num": 3,
}
# Other names of types and optimizers, and the name used here; with an empty buffer type, policy.priority determines it.
NAMES: dict[str, dict[str, str]] = {
    "env_manager": {
        "base_v2": "base",
        **dict.fromkeys(("async_subprocess", "gym_vector", "subprocess_v2"), "subprocess"),
    },
    "policy": {"cql_discrete": "discrete_cql", "ppg_offpolicy": "ppg", "sqil_sac": "sac"},
    "replay_buffer": dict.fromkeys(("advanced", "deque", "naive"), ""),
    "optimizer": {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw"},
}
PLACES = {"env_manager": "env.manager", "replay_buffer": BUFFER}  # parts of create_config, and their places here
CREATED = ("env", "env_manager", "policy", "replay_buffer", "reward_model")  # parts of create_config
# Names of other libraries, and the last part of ours; of several, separated by spaces, the policy has one.
SYNONYMS = {
    other: ours
    for ours, others in {
        "alpha entropy_weight": "ent_coef entropy_coef",
        "clip_ratio": "clip_range clip_coef clip_param eps_clip",
        "collector_env_num": "n_envs num_envs num_workers training_num",
        "cuda": "device",
        "decay": "exploration_fraction",
        "discount_factor": "gamma",
        "encoder_hidden_size_list": "hidden_size hidden_sizes net_arch",
        "end": "exploration_final_eps end_e",
        "epoch_per_collect": "n_epochs update_epochs num_learning_epochs repeat_per_collect",
        "evaluator_env_num": "test_num",
        "exp_name": "run_name experiment_name",
        "gae_lambda": "lam",
        "grad_clip_value": "max_grad_norm",
        "learning_rate": "lr",
        "max_env_step": "total_timesteps num_timesteps max_steps total_steps",
        "max_train_iter": "max_iterations",
        "n_evaluator_episode": "n_eval_episodes",
        "n_sample": "n_steps num_steps num_steps_per_env step_per_collect",
        "optimizer": "optim_type optimizer_class",
        "random_collect_size": "learning_starts",
        "replay_buffer_size": "buffer_size",
        "start": "exploration_initial_eps start_e",
        "target_theta": "tau",
        "target_update_freq": "target_network_frequency",
        "update_per_collect": "gradient_steps",
        "value_weight": "vf_coef value_loss_coef",
    }.items()
    for other in others.split()
}


def create_from(classes: Sequence[Any]) -> dict[str, Any] | None:
    """Return the `create_config` of classes that DI-engine's `compile_config` takes; None without any.

    The policy's class must be registered. Others, such as those of environment managers and workers, have no
    counterpart.
    """
    names = [name for cls in classes for name, policy in POLICY_REGISTRY.imported().items() if policy is cls]
    if classes and not names:
        raise ConfigError(f"compile_config: expected a registered policy class among the classes, got {show(classes)}.")
    return {"policy": {"type": names[0]}} if classes else None


def translate_create(create: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return the nested keys of `create_config` in the form of `main_config`."""
    for key, value in create.items():
        path = f"create_config.{key}"
        if not isinstance(value, dict):
            known = f" Its types: {', '.join(MANAGERS)}." if key == "env_manager" else ""
            raise ConfigError(f"{path}: expected a dict such as dict(type=...), got {show(value)}.{known}")
        if key in CREATED:
            continue
        if path not in IGNORED_KEYS:
            raise ConfigError(f"Unknown key '{path}'.{closest(key, CREATED)}")
        notes.append(f"{path} is ignored: {IGNORED_KEYS[path][1]}.")
    parts = {key: dict(create[key]) for key in CREATED if key in create}
    for key in ("env_manager", "replay_buffer", "policy"):
        if "type" in parts.get(key, {}):
            parts[key]["type"] = _rename_type(key, parts[key]["type"], f"create_config.{key}.type", notes)
    name = parts.get("env_manager", {}).get("type", "base")
    if name not in MANAGERS:
        hint = f"{closest(name, MANAGERS)} Known: {', '.join(MANAGERS)}."
        raise ConfigError(f"Unknown create_config.env_manager.type '{name}'.{hint}")
    cfg: dict[str, Any] = {"env": {"manager": parts.pop("env_manager", {})}, "policy": {}}
    if buffer := parts.pop("replay_buffer", {}):
        set_key(cfg, BUFFER, buffer)
    return merge(cfg, parts)


def _rename_type(part: str, name: Any, path: str, notes: list[str]) -> Any:
    """Return the name that a type of `create_config` has here, see `NAMES`; a note says so if it is another one."""
    if not isinstance(name, str):
        if part == "policy":  # a better message follows
            return name
        raise ConfigError(f"{path}: expected a name, got {show(name)}.")
    short = name.removesuffix("_command") if part == "policy" else name
    own = NAMES[part].get(short, short)
    if own != name:
        meaning = f"'{own}' here" if own else "the policy's own buffer here"
        if name == "naive":  # DI-engine's buffer that ignores priorities; the other types have them there too
            meaning += ", which draws by priority if policy.priority is True"
        notes.append(f"{path} '{name}' is {meaning}.")
    return own


def translate_d4rl(user: dict[str, Any], notes: list[str]) -> None:
    """Replace D4RL's name of an environment and its data, 'hopper-medium-v2', by gymnasium's and Minari's names.

    This is done if `env.type` is 'd4rl'. A data set that the user names is kept. Minari's data were recorded anew.
    """
    if get_key(user, "env.type") != "d4rl":
        return
    name, path = get_key(user, "env.env_id"), "policy.collect.data_path"
    found = re.fullmatch(r"(\w+?)-([a-z-]+)-v\d+", str(name))
    if found is None or found[1] not in D4RL:
        raise ConfigError(
            f"env.env_id: expected one of {', '.join(D4RL)} and the kind of its data, such as 'hopper-medium-v2', with "
            f"env.type='d4rl', got {show(name)}: for others set gymnasium's id, and {path} to a Minari data set's id."
        )
    robot, data = found.groups()
    for key in ("env.type", "env.import_names", "policy.collect.data_type"):
        pop_key(user, key)
    env_id, data_id = D4RL[robot]
    set_key(user, "env.env_id", env_id)
    version = next((found.version for found in importlib.metadata.distributions(name="mujoco")), "(not installed)")
    note = f"env.env_id '{name}' is '{env_id}' here, of MuJoCo {version}"
    if get_key(user, path) is None:
        set_key(user, path, data_id.format(robot, data))
        set_key(user, "policy.collect.data_type", "minari")
        note += f", with the Minari data set '{get_key(user, path)}'"
    notes.append(f"{note}.")


def choose_variant(user: dict[str, Any], notes: list[str]) -> None:
    """Replace the type of a policy by that of its variant for hybrid actions or a memory.

    Also replace a buffer type of DI-engine, set in `main_config`, by the one used here.
    """
    path = f"{BUFFER}.type"
    if isinstance(buffer := get_key(user, path), str):
        set_key(user, path, _rename_type("replay_buffer", buffer, path, notes))
    if get_key(user, "policy.multi_agent") is True:
        for path in [path for path, kind in given_action_spaces(user).items() if kind == "discrete"]:
            pop_key(user, path)  # the only kind of actions that several agents have
    name, keys = get_key(user, "policy.type"), ("model.lstm_type", "model.memory")
    memory = next(((key, value) for key in keys if (value := get_key(user, f"policy.{key}")) is not None), None)
    if not isinstance(name, str):
        return
    if name == "r2d2_gtrxl":
        _read_transformer(user, notes)
        return
    if name == "dt" and get_key(user, "policy.model.state_dim") is not None:
        _read_dt(user, notes)
        return
    if name == "coma" and isinstance(get_key(user, "policy.model.obs_shape"), dict):
        _move_keys(user, name, notes)
    if name in HYBRID_POLICIES and "hybrid" in given_action_spaces(user).values():
        variant, option = HYBRID_POLICIES[name], "action_space='hybrid'"
    elif name in RECURRENT_POLICIES and memory is not None:
        variant, option = RECURRENT_POLICIES[name], f"{memory[0]}={memory[1]!r}"
    else:
        return
    set_key(user, "policy.type", variant)
    notes.append(f"policy.type '{name}' with {option} is '{variant}' here.")


def _move_keys(user: dict[str, Any], policy_type: str, notes: list[str]) -> None:
    """Replace the keys of DI-engine's class of a policy, see `POLICY_KEYS`."""
    for old, new in POLICY_KEYS[policy_type].items():
        value = pop_key(user, old)
        if value is not None and new and get_key(user, new) in (None, {}):
            set_key(user, new, value)
    notes.append(f"The keys of DI-engine's '{policy_type}' have other names here, see docs/from_di_engine.md.")


def _read_transformer(user: dict[str, Any], notes: list[str]) -> None:
    """Replace DI-engine's `r2d2_gtrxl` by R2D2 with a transformer as memory, and the names of its options."""
    set_key(user, "policy.type", "r2d2")
    for path, default in GTRXL_DEFAULTS.items():
        if get_key(user, path) is None:
            set_key(user, path, default)
    # There, a row attends to the rows of its segment and to `memory_len` rows before.
    length = pop_key(user, "policy.model.memory_len") + pop_key(user, "policy.seq_len")
    set_key(user, "policy.model.memory", {"type": "gtrxl", "memory_len": length})
    size, sizes = pop_key(user, "policy.model.hidden_size"), "policy.model.encoder_hidden_size_list"
    if get_key(user, sizes) is None:
        set_key(user, sizes, [128, 128, size] if _is_image(get_key(user, "policy.model.obs_shape")) else [size])
    _move_keys(user, "r2d2_gtrxl", notes)
    notes.append(f"policy.type 'r2d2_gtrxl' is 'r2d2' with model.memory={get_key(user, 'policy.model.memory')} here.")


def _is_image(shape: Any) -> bool:
    return isinstance(shape, (list, tuple)) and len(shape) == 3


def _read_dt(user: dict[str, Any], notes: list[str]) -> None:
    """Replace the keys of DI-engine's Decision Transformer, whose configs have `policy.model.state_dim`.

    Its warm-up is a schedule of the learning rate, and `state_mean` normalises observations. Its main program for
    images has an encoder of three convolutions.
    """
    if length := get_key(user, "policy.model.context_len"):
        set_key(user, "policy.context_len", length)  # the only one that DI-engine's policy reads
    _move_keys(user, "dt", notes)
    rate, steps = get_key(user, "policy.learn.learning_rate", 1e-4), pop_key(user, "policy.warmup_steps")
    if steps is not None and isinstance(rate, float):
        schedule = dict(type="linear", start=rate / steps, end=rate, over=steps, by="iteration")
        set_key(user, "policy.learn.learning_rate", schedule)
    if "state_mean" in (get_key(user, "policy") or {}):
        pop_key(user, "policy.state_mean")
        set_key(user, "env.norm_obs", True)
    sizes = "policy.model.encoder_hidden_size_list"
    if _is_image(get_key(user, "policy.model.obs_shape")) and get_key(user, sizes) is None:
        set_key(user, sizes, [32, 64, 64, get_key(user, "policy.model.h_dim", 128)])


def given_action_spaces(user: dict[str, Any]) -> dict[str, Any]:
    """Return the values of `action_space`, by each of its DI-engine names that the user set."""
    space = "policy.model.action_space"
    paths = [space, *(old for old, new in RENAMED_KEYS.items() if new == space)]
    return {path: value for path in paths if (value := get_key(user, path)) is not None}


def rename_keys(user: dict[str, Any], known: Schema, notes: list[str]) -> None:
    """Replace old names of keys (`RENAMED_KEYS`), optimizers and retired environments by the current ones.

    `True` and `False` for one of the `SWITCHES` become its key `use_norm`. `known` is the schema of the config.
    """
    for path, (present, reason) in REDUNDANT_KEYS.items():
        if present in known and path not in known and pop_key(user, path) is not None:
            notes.append(f"{path} is ignored: {reason}.")
    discount, name = get_key(user, "policy.learn.discount_factor"), get_key(user, "policy.type")
    if discount and name in LEARN_DISCOUNT and pop_key(user, "policy.discount_factor") not in (None, discount):
        notes.append(f"policy.discount_factor is ignored: DI-engine's '{name}' reads policy.learn.discount_factor.")
    policy_cls = POLICY_REGISTRY.find(name)
    _replace_values(user, known, policy_cls, notes)
    for old, new in RENAMED_KEYS.items():
        value = get_key(user, old, UNSET)
        free = (
            "policy.model" in known and known["policy.model"].type is dict
        )  # a model is given: any of its keys may be set
        if value is UNSET or old in known or not (new in known or (free and new.startswith("policy.model."))):
            continue
        if get_key(user, new, value) != value:
            raise ConfigError(f"{old}={value!r} contradicts {new}={get_key(user, new)!r}: set '{new}' only.")
        set_key(user, new, pop_key(user, old))
        notes.append(f"{old} is {new} here.")
    if getattr(policy_cls, "multi_agent", False) and get_key(user, "policy.multi_agent") is True:
        pop_key(user, "policy.multi_agent")  # such a policy needs no key that says so
    for path in SCHEDULERS:
        _read_scheduler(user, path, known)
    _rename_optimizer(user, notes)
    if ENCODER in known or f"{ENCODER}.type" in known:
        _rename_encoder(user, notes)
    for path in SWITCHES:
        if isinstance(get_key(user, path), bool):
            set_key(user, path, {"use_norm": get_key(user, path)})
    _rename_env(user, notes)


def _replace_values(user: dict[str, Any], known: Schema, policy_cls: Any, notes: list[str]) -> None:
    """Replace values that DI-engine accepts and that mean nothing here, or something else."""
    for path, (value, reason) in WITHOUT_COUNTERPART.items():
        if get_key(user, path, UNSET) == value:
            pop_key(user, path)
            notes.append(f"{path}={value} is left out: {reason}.")
    if policy_cls.learns_from == "collect" and "policy.priority" not in known and get_key(user, "policy.priority"):
        set_key(user, "policy.priority", False)  # DI-engine's on-policy classes declare it and do not read it
    if get_key(user, STATE_OF_EACH) == [True]:
        set_key(user, STATE_OF_EACH, True)  # `special_global_state = True,` is a tuple in two of DI-engine's files


def _rename_env(user: dict[str, Any], notes: list[str]) -> None:
    env_id = get_key(user, "env.env_id")
    if isinstance(env_id, str) and env_id in RENAMED_IDS:
        set_key(user, "env.env_id", RENAMED_IDS[env_id])
        notes.append(f"env.env_id '{env_id}' is '{RENAMED_IDS[env_id]}' here: gymnasium has retired the old version.")
        if env_id in OLD_ANTS and get_key(user, CONTACTS) is None:
            set_key(user, CONTACTS, True)
            notes.append(f"{CONTACTS} is True, as in '{env_id}'.")


def _rename_optimizer(user: dict[str, Any], notes: list[str]) -> None:
    """Replace DI-engine's name of an optimizer; its 'Adam' with a weight decay is AdamW."""
    path = "policy.learn.optimizer"
    name, names = get_key(user, path), NAMES["optimizer"]
    if isinstance(name, str) and name in names:
        decays = name == "Adam" and get_key(user, "policy.learn.weight_decay")
        set_key(user, path, "adamw" if decays else names[name])
        notes.append(f"{path} '{name}' {'with a weight decay ' if decays else ''}is '{get_key(user, path)}' here.")


def _read_scheduler(user: dict[str, Any], path: str, known: Schema) -> None:
    """Replace one of the `SCHEDULERS` by a schedule of the number that it multiplies."""
    lowest, number = SCHEDULERS[path]
    if path in known or number not in known or (value := pop_key(user, path)) is None:
        return
    fields = value if isinstance(value, dict) else {}
    floats = all(matches(field, float) for field in fields.values())
    if set(fields) != {"epoch_num", lowest} or not floats or fields["epoch_num"] <= 0:
        raise ConfigError(f"{path} must be dict(epoch_num=collects, {lowest}=final share), got {show_value(value)}.")
    start = get_key(user, number, known[number].default)
    if isinstance(start, dict):
        raise ConfigError(f"{path} contradicts the schedule of {number}: set only one.")
    known[number].check(number, start)
    schedule = dict(type="linear", start=start, end=start * fields[lowest], over=fields["epoch_num"], by="collect")
    set_key(user, number, schedule)


def _rename_encoder(user: dict[str, Any], notes: list[str]) -> None:
    """Replace DI-engine's switch for the encoder of IMPALA by its name."""
    model = get_key(user, "policy.model")
    if isinstance(model, dict) and isinstance(model.get("impala_cnn_encoder"), bool):
        if model.pop("impala_cnn_encoder") and model.setdefault("encoder", "impala") != "impala":
            raise ConfigError(f"policy.model.impala_cnn_encoder=True contradicts {ENCODER}: set '{ENCODER}' only.")
        notes.append(f"policy.model.impala_cnn_encoder is {ENCODER}={model.get('encoder')!r} here.")


def play_first_actions(cfg: Any, env_spec: EnvSpec) -> bool:
    """Add a wrapper that leaves only the first actions of the environment, if the config says that there are fewer.

    DI-engine does not compare `policy.model.action_shape` with the environment. Return whether the config has changed.
    """
    space, number, managed = env_spec.action_space, cfg.policy.model.get("action_shape"), cfg.env.manager.type
    masked = find_mask_space(env_spec.observation_space) is not None
    if not isinstance(space, Discrete) or type(number) is not int or masked or managed == "native":
        return False
    if not 1 < number < space.n:
        return False
    cfg.env.wrappers = [*cfg.env.wrappers, {"name": FIRST_ACTIONS, "number": number}]
    cfg.notes.append(
        f"policy.model.action_shape={number}: the first {number} of the environment's {space.n} are played."
    )
    return True


def take_loop_keys(user: dict[str, Any], schema: Schema) -> None:
    """Remove `policy.on_policy` and `policy.offline`, because the class of the policy determines its training loop."""
    policy_type = schema["policy.type"].default
    learns_from = POLICY_REGISTRY.find(policy_type).learns_from
    for name, source in LOOP_KEYS.items():
        path, right = f"policy.{name}", learns_from == source
        if path in schema and schema[path].default != right:
            raise ConfigError(
                f"The class of policy '{policy_type}' declares {name}={not right}, but learns from {learns_from}: set "
                f"its attribute `learns_from`, such as learns_from = '{source}'."
            )
        value = get_key(user, path, right)
        if value != right:
            raise ConfigError(f"{path}: expected {right} for policy '{policy_type}', got {show(value)}: leave it out.")
        if path not in schema:
            pop_key(user, path)


def import_module(name: str) -> ModuleType:
    """Import a module that `import_names` lists.

    The module paths of DI-engine are accepted for modules of this package: `ding_lite.policy.cql`, for instance,
    imports `ding_lite.offline.policy.cql`.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        own, *names = name.split(".")
        if own != "ding_lite" or len(names) < 2 or error.name is None or not name.startswith(error.name):
            raise
        for found in pkgutil.walk_packages(importlib.import_module(own).__path__, f"{own}."):
            _, *parts = found.name.split(".")
            if parts[-1] == names[-1] and names[0] in parts:  # perhaps in a room, which has its policies in `policy`
                return importlib.import_module(found.name)
        raise

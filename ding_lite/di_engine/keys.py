"""Keys and types of DI-engine's configs that have no effect here, or another name."""

from __future__ import annotations

import re
from typing import Any

from ding_lite.utils.key import get_key, show
from ding_lite.utils.registry import ConfigError


def expand(paths: str) -> list[str]:
    """Return keys separated by spaces; 'policy.{collect,learn}.nstep' is two keys, as in a shell."""
    words = [[*re.split("[{}]", path), "", ""][:3] for path in paths.split()]
    return [head + word + tail for head, group, tail in words for word in group.split(",")]


# Keys that have no effect, whatever their value, and the reason.
_IGNORED = {
    "create_config.collector": "the policy chooses its collector",
    "create_config.imagination_buffer": "a world model keeps what it imagines",
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
    "reward_model.{action_shape,action_size,input_size,obs_shape} policy.agent_num": "the environment determines it",
    "reward_model.continuous": "the environment determines it",
    "reward_model.{collect_count,expert_data_path}": "reward_model.data_path is the data set, or the run that plays it",
    "reward_model.target_new_data_count": "policy.collect.n_sample says how many steps a reward model learns from",
    "reward_model.{load_path,reward_model_path}": "checkpoints contain the reward model",
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
    "world_model.cuda": "policy.cuda sets it",
    "world_model.eval_freq": "holdout errors are logged after each training",
    "world_model.model.{action_size,reward_size,state_size}": "the environment determines it",
    "world_model.other.imagination_buffer": "rollout_retain says how much is kept",
    "policy.learn.ensemble_size": "world_model.model.ensemble_size sets it",
    "policy.logger wandb_logger": "tracker.type='wandb' records the figures in Weights & Biases",
}
# The same for keys of which only one value is accepted, or those of a tuple.
_FIXED: dict[str, tuple[Any, str]] = {
    "env.env_wrapper": (("mujoco_default", "atari_default"), "the environment has its own wrappers"),
    "env.flat_obs": (True, "observations are vectors"),
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
    "world_model.model.gradient_model": (True, "'ddppo' has one, and 'mbpo' has none"),
    "policy.traj_len_inf": (False, "blocks may cut trajectories"),
}
# Keys that have no effect, each with the value that is accepted (or a tuple of values, or Any) and the reason.
IGNORED_KEYS = {path: (Any, reason) for paths, reason in _IGNORED.items() for path in expand(paths)} | {
    path: fixed for paths, fixed in _FIXED.items() for path in expand(paths)
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
    "policy.learn.grad_clip_value": "policy.learn.{clip_value,grad_clip,grad_norm}",
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
RENAMED_KEYS = {old: new for new, paths in _RENAMED.items() for old in expand(paths)}
# DI-engine's linear decays by collect: each with the name of its final share, and the number that it multiplies.
SCHEDULERS = {
    "policy.learn.lr_scheduler": ("min_lr_lambda", "policy.learn.learning_rate"),
    "policy.learn.clip_scheduler": ("min_clip_lambda", "policy.learn.clip_ratio"),
}


def given_action_spaces(user: dict[str, Any]) -> dict[str, Any]:
    """Return the values of `action_space`, by each of its DI-engine names that the user set."""
    space = "policy.model.action_space"
    paths = [space, *(old for old, new in RENAMED_KEYS.items() if new == space)]
    return {path: value for path in paths if (value := get_key(user, path)) is not None}


# DI-engine's types and optimizers, and their names here; with an empty buffer type, policy.priority determines it.
NAMES: dict[str, dict[str, str]] = {
    "env_manager": {
        "base_v2": "base",
        **dict.fromkeys(("async_subprocess", "gym_vector", "subprocess_v2"), "subprocess"),
    },
    "policy": {"cql_discrete": "discrete_cql", "ppg_offpolicy": "ppg", "sqil_sac": "sac"},
    "replay_buffer": dict.fromkeys(("advanced", "deque", "episode", "naive"), ""),
    "optimizer": {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw"},
}


def rename_type(part: str, name: Any, path: str, notes: list[str]) -> Any:
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

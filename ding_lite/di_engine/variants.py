"""Policies of DI-engine that have another name, class or keys here, and the data sets of D4RL.

The functions change `user`, the nested keys that the user set, in place, and append a sentence to `notes` for every
value that they translate.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Container
from typing import Any

from ding_lite.config.schema import BUFFER
from ding_lite.di_engine.keys import expand, given_action_spaces, rename_type
from ding_lite.utils.key import get_key, pop_key, set_key, show
from ding_lite.utils.registry import BUFFER_REGISTRY, ConfigError

# D4RL's names of robots, which stand before the kind of data in env.env_id: gymnasium's, and those of Minari's data.
D4RL = {name.lower(): (f"{name}-v5", "mujoco/{}/{}-v0") for name in ("Ant", "HalfCheetah", "Hopper", "Walker2d")}
for _hand in ("Pen", "Door", "Hammer", "Relocate"):
    D4RL[_hand.lower()] = (f"gymnasium_robotics:AdroitHand{_hand}-v1", "D4RL/{}/{}-v2")
HER = "policy.other.her"
# Policies whose class in DI-engine also takes action_space='hybrid', and the policy that does so here.
HYBRID_POLICIES = {"ddpg": "paddpg"}
# Policies that have another class if their networks have a memory.
RECURRENT_POLICIES = {"sac": "recurrent_sac", "td3": "recurrent_td3"}
# Policies that learn from demonstrations, and their replay buffers here.
DEMONSTRATIONS = {"dqfd": "demonstrations", "r2d3": "demonstration_sequences"}
# Keys of DI-engine's classes of these policies, and their names here; of several values the first counts. Empty: none.
POLICY_KEYS = {
    "bco": {
        "bco.learn.idm_learning_rate": "policy.learn.idm_learning_rate",
        "bco.model.idm_encoder_hidden_size_list": "policy.model.idm_hidden_size_list",
        "policy.collect.data_path": f"{BUFFER}.data_path",
    }
    | dict.fromkeys(expand(
        "bco policy.collect.{n_episode,model_path,noise,noise_range,noise_sigma} "
        "policy.learn.{train_epoch,lr_decay,tanh_mask} policy.model.dueling"
    ), ""),
    "coma": {
        "policy.model.obs_shape.global_state": "policy.model.global_obs_shape",
        "policy.model.obs_shape.agent_state": "policy.model.obs_shape",
        **dict.fromkeys(("policy.collect.n_episode", "policy.collect.unroll_len"), ""),
    },
    "dqfd": {
        "policy.learn.lambda3": "policy.learn.weight_decay",
        "policy.learn.per_train_iter_k": "policy.other.replay_buffer.first_updates",
        "policy.collect.pho": "policy.other.replay_buffer.ratio",
        **dict.fromkeys(("policy.learn.expert_replay_buffer_size", "policy.collect.demonstration_info_path"), ""),
    },
    "r2d3": {
        "policy.learn.lambda3": "policy.learn.weight_decay",
        "policy.collect.pho": "policy.other.replay_buffer.ratio",
        **dict.fromkeys(("policy.learn.expert_replay_buffer_size", "policy.learn.per_train_iter_k"), ""),
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
    | dict.fromkeys(expand(
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
        **dict.fromkeys(expand("policy.model.{dropout,att_head_dim,att_mlp_num,gru_gating}"), ""),
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

# The sections of DI-engine's NGU, and keys of both that have no meaning here; the others are the reward model's.
NGU_SECTIONS = ("rnd_reward_model", "episodic_reward_model")
NGU_KEYS = (
    *("type", "intrinsic_reward_type", "obs_shape", "action_shape", "nstep", "clear_buffer_per_iters"),
    "only_use_last_five_frames_for_icm_rnd",
)
# Keys of DI-engine's T-REX that say which checkpoints play, or that repeat others.
TREX_KEYS = (
    *("checkpoint_min", "checkpoint_max", "checkpoint_step", "num_trajs"),
    *("env_id", "algo_for_model", "exp_name", "offline_data_path", "continuous"),
)


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


def translate_her(user: dict[str, Any], notes: list[str]) -> None:
    """Replace DI-engine's section for goals in hindsight by the buffer 'her', which stores steps, not episodes."""
    if (section := pop_key(user, HER)) is None:
        return
    known = ("her_strategy", "her_replay_k", "episode_size", "sample_per_episode")
    if not isinstance(section, dict) or (unknown := next((key for key in section if key not in known), "")):
        found = show(section) if not isinstance(section, dict) else f"'{unknown}'"
        raise ConfigError(f"{HER}: expected a dict with the keys {', '.join(known)}, got {found}.")
    set_key(user, f"{BUFFER}.type", "her")
    notes.append(
        f"{HER} is {BUFFER}.type='her' here, which draws from all steps: a batch has learn.batch_size of them."
    )
    for key in (key for key in known[:2] if key in section):
        set_key(user, f"{BUFFER}.{key}", section[key])
    if get_key(user, f"{BUFFER}.replay_buffer_size") is not None:
        notes.append(f"{BUFFER}.replay_buffer_size counts env steps here, and not episodes.")
    if pop_key(user, "policy.collect.n_episode") is not None:
        notes.append("policy.collect.n_episode is ignored: policy.collect.n_sample env steps are collected at a time.")
    if pop_key(user, "policy.model.obs_shape") is not None:
        notes.append("policy.model.obs_shape is ignored: the environment tells it, with goals as parts of a Dict.")


def choose_variant(user: dict[str, Any], notes: list[str]) -> None:
    """Replace the type of a policy by that of its variant for hybrid actions or a memory.

    Also replace a buffer type of DI-engine, set in `main_config`, by the one used here.
    """
    path = f"{BUFFER}.type"
    if isinstance(buffer := get_key(user, path), str):
        set_key(user, path, rename_type("replay_buffer", buffer, path, notes))
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
    _read_demonstrations(user, name, notes)
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


def _read_demonstrations(user: dict[str, Any], name: str, notes: list[str]) -> None:
    """Choose the replay buffer of a policy that learns from demonstrations, and rename the policy's keys."""
    if name not in DEMONSTRATIONS or not any(get_key(user, old) is not None for old in POLICY_KEYS[name]):
        return
    _move_keys(user, name, notes)
    if not get_key(user, f"{BUFFER}.type"):
        set_key(user, f"{BUFFER}.type", DEMONSTRATIONS[name])
    if get_key(user, "policy.priority") and get_key(user, f"{BUFFER}.alpha") is None:
        set_key(user, f"{BUFFER}.alpha", BUFFER_REGISTRY.find("prioritized").config["alpha"].default)


def read_bco(user: dict[str, Any], notes: list[str]) -> None:
    """Replace a clone that has DI-engine's section `bco` by the policy `bco`."""
    if get_key(user, "bco") is None or get_key(user, "policy.type") != "bc":
        return
    set_key(user, "policy.type", "bco")
    set_key(user, f"{BUFFER}.type", "observations")
    notes.append("policy.type 'bc' with the section 'bco' is 'bco' here.")
    _move_keys(user, "bco", notes)


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


def read_imitation(user: dict[str, Any], overridden: Container[str], notes: list[str]) -> None:
    """Replace the keys of DI-engine's `guided_cost`, `drex`, `gail` and `trex`.

    Some of its configs do not name the last two: its entries do.

    `overridden` are the keys that the user set beside the config.
    """
    section, data = get_key(user, "reward_model"), "reward_model.data_path"
    if isinstance(section, dict) and section.get("type") == "guided_cost":
        pop_key(user, "policy.collect.collector_logit")  # True: the probabilities of actions are always known
        if (expert := pop_key(user, "policy.collect.model_path")) is not None and data not in overridden:
            set_key(user, data, expert)
            notes.append(f"policy.collect.model_path is {data} here, which is {expert!r}.")
    if not isinstance(section, dict) or "expert_model_path" not in section:
        return
    kind = section.get("type") or ("trex" if "min_snippet_length" in section else "gail")
    if kind not in ("drex", "gail", "trex"):
        return
    if kind == "drex":
        set_key(user, "reward_model.expert_model_path", pop_key(user, "reward_model.bc_path") or "")
        pop_key(user, "reward_model.bc_iterations")
        if (episodes := pop_key(user, "reward_model.num_trajs_per_bin")) is not None:
            set_key(user, "reward_model.expert_episodes", episodes)
    expert, recorded = pop_key(user, "reward_model.expert_model_path"), pop_key(user, data)
    set_key(user, "reward_model.type", kind)
    set_key(user, data, recorded if data in overridden else expert)
    notes.append(f"reward_model.expert_model_path is {data} here, which is {get_key(user, data)!r}.")
    if kind != "gail":
        dropped = [key for key in TREX_KEYS if pop_key(user, f"reward_model.{key}") is not None]
        notes.append(f"reward_model.{{{','.join(dropped)}}} are ignored: the run says what plays.")
        if (epochs := pop_key(user, "reward_model.update_per_collect")) is not None:
            set_key(user, "reward_model.train_epoch", epochs)


def read_ngu(user: dict[str, Any], notes: list[str]) -> None:
    """Replace the two sections of DI-engine's `ngu` by one reward model, and the keys of its class and model."""
    sections = [section for name in NGU_SECTIONS if isinstance(section := pop_key(user, name), dict)]
    if not sections:
        return
    merged = {key: value for section in sections for key, value in section.items() if key not in NGU_KEYS}
    rescale, weight = (merged.pop(f"last_nonzero_reward_{key}", None) for key in ("rescale", "weight"))
    if rescale:
        merged["final_reward_weight"] = weight
    set_key(user, "reward_model", {"type": "ngu", **merged})
    pop_key(user, "env.obs_plus_prev_action_reward")
    pop_key(user, "policy.other.eps")
    number = pop_key(user, "policy.model.collector_env_num")
    if number is not None:
        set_key(user, "policy.num_policies", number)
    notes.append(
        "rnd_reward_model and episodic_reward_model are the reward_model 'ngu' here. The policy itself remembers the "
        "last action and reward, policy.model.collector_env_num is policy.num_policies, and policy.other.eps is "
        "ignored, as in DI-engine: epsilon is 0.4^(1 + 8 i / (N - 1))."
    )


def read_world_model(user: dict[str, Any], notes: list[str]) -> None:
    """Count evaluations of runs with a world model in learner iterations, and not in env steps as DI-engine's entries.

    A config of DI-engine's has one of the keys that only its world models have.
    """
    known = ("world_model.cuda", "world_model.eval_freq", "world_model.model.state_size")
    path = "policy.eval.evaluator.eval_freq"
    every, updates = get_key(user, path), get_key(user, "policy.learn.update_per_collect")
    if not any(get_key(user, key) is not None for key in known) or None in (every, updates):
        return
    keys = ("env.collector_env_num", "policy.collect.n_sample")
    steps = max(get_key(user, key) or 1 for key in keys)  # env steps of a collect, which are at least one each
    set_key(user, path, max(1, every * updates // steps))
    notes.append(f"{path}={every} env steps are {get_key(user, path)} learner iterations here.")

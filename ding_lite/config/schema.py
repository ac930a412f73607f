"""Builds the schema of a config: the keys that its classes declare, see `utils/key.py`.

A schema is a flat dict from dotted key to `Key`. Two special defaults exist: a key with the default `UNSET` is left out
of the config if nobody sets it, and a key with the default `REQUIRED` must be set. A key of type `SECTION` is a dict
without options.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import traceback
import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ding_lite.envs.keys import ENV_DEFAULTS, ENV_KEYS
from ding_lite.utils.key import (
    Key,
    activation_name,
    declared_keys,
    get_key,
    is_activation,
    matches,
    pop_key,
    set_key,
    show,
    with_option,
)
from ding_lite.utils.registry import (
    BUFFER_REGISTRY,
    ENCODER_REGISTRY,
    ENV_REGISTRY,
    LEARNING_PARTS,
    MODEL_REGISTRY,
    POLICY_REGISTRY,
    WRAPPER_REGISTRY,
    ConfigError,
    EncoderChoice,
    wrapped,
)

Schema = dict[str, Key]
UNSET, REQUIRED = object(), object()
OFF = Key(False, "")  # a switch that a class does not have
BUFFER = "policy.other.replay_buffer"
# The function of `ding_lite.entry` that trains a policy, by what the policy learns from.
PIPELINE_OF = {
    "replay": "serial_pipeline",
    "collect": "serial_pipeline_onpolicy",
    "dataset": "serial_pipeline_offline",
}
# Parts of `create_config` that name a class and modules to import, and where the class is registered.
PARTS = {"env": ENV_REGISTRY, "policy": POLICY_REGISTRY, **LEARNING_PARTS}
MAX_DEPTH = 50  # levels of nested dicts and lists in a config
TOP_KEYS = dict(
    exp_name=Key("default_experiment", "experiment and its directory, relative to where the run starts"),
    seed=Key(0, "seed of all random numbers: networks, exploration, environments, replay", low=0, high=2**63 - 1),
    max_seconds=Key(
        None, "seconds of wall-clock time, over all resumptions, after which the run ends; None: no limit", int, low=1
    ),
    tracker=dict(
        type=Key(None, "where else to record the run: 'wandb' or 'mlflow', each an extra; None: nowhere", type=str),
        **with_option(
            "type",
            dict(
                project=Key("ding_lite", "project of Weights & Biases, experiment of MLflow"),
                name=Key(None, "name of the run there; None: that of its directory", type=str),
                group=Key(
                    None, "group of runs that it belongs to; None: its directory's name without the seed", type=str
                ),
                tags=Key([], "words by which to find the run", type=list[str]),
                patience=Key(
                    30.0, "seconds that W&B has at the start, and at the end for the last figures", low=1, high=86400
                ),
                options=Key({}, "further arguments of wandb.init or mlflow.start_run; for MLflow also `tracking_uri`"),
            ),
        ),
    ),
)
IMPORT_NAMES = Key([], "modules to import first; they register the class of `type` or its model", type=list)
# (low, high) of a model's numbers, also in lists, by the ending of the parameter's name.
MODEL_RANGES = {
    ("_size", "_shape", "_size_list", "_quantiles", "stride"): (1, 2**16),
    ("_num", "nblock", "padding"): (0, 1000),
}
ENCODER = "policy.model.encoder"
LIMITS = {"max_env_step", "max_train_iter"}  # words beside the keys of a config
LONGEST_KEY = 200  # characters; searching for a similar key would take seconds for longer ones
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


def find_class(part: str, user: Mapping[str, Any]) -> Any:
    """Return the class that the `type` of a part of `create_config` names; its module is imported."""
    kind = get_key(user, f"{part}.type", ENV_DEFAULTS["type"] if part == "env" else None)
    if not isinstance(kind, str):
        raise ConfigError(
            f"create_config.{part}.type: expected a registered name such as {part}=dict(type=...), got {show(kind)}."
        )
    return object if part == "env" and kind == ENV_DEFAULTS["type"] else PARTS[part].find(kind)


def config_schema(user: Mapping[str, Any], policy_cls: Any, model_given: bool = False) -> Schema:
    """Return the schema of a config: every key that the classes of its types declare, whose modules are imported.

    Args:
        user: the nested keys that the user set.
        policy_cls: the class of its policy, see `find_class`.
        model_given: whether the user passes a model object. `policy.model` may then contain any keys.
    """
    env_cls = find_class("env", user)
    policy = class_options(policy_cls, "policy.", {"import_names": IMPORT_NAMES})
    schema = class_options(object, "", TOP_KEYS) | class_options(env_cls, "env.", ENV_KEYS)
    if BUFFER + ".type" in policy:
        prioritized = get_key(user, "policy.priority", policy.get("policy.priority", OFF).default)
        default = policy[BUFFER + ".type"].default or ("prioritized" if prioritized else "uniform")
        buffer_type = get_key(user, BUFFER + ".type") or default
        schema |= class_options(BUFFER_REGISTRY.find(buffer_type), BUFFER + ".")
        policy[BUFFER + ".type"] = replace(policy[BUFFER + ".type"], default=buffer_type)
    schema |= policy
    for part in (part for part in LEARNING_PARTS if part in user):
        schema |= class_options(find_class(part, user), f"{part}.", {"import_names": IMPORT_NAMES})
    for path in (f"{part}.type" for part in PARTS if part in ("policy", "env") or part in user):
        meaning = schema[path].meaning if path in schema else ""
        schema[path] = Key(get_key(user, path, ENV_DEFAULTS["type"]), meaning, str)
    if model_given:
        schema = {path: key for path, key in schema.items() if not path.startswith("policy.model.")}
        return schema | {"policy.model": Key({}, "", dict)}
    return schema | model_options(policy_cls, user, schema)


def class_options(cls: type, prefix: str, base: Mapping[str, Any] = {}) -> Schema:
    """Return the keys that a class and its base classes declare, after a prefix such as 'policy.'.

    The class may change the defaults of the keys in `base`.
    """
    keys = {prefix + path: key for path, key in declared_keys(cls, base).items()}
    return {path: replace(key, default=plain(key.default, path)) for path, key in keys.items()}


def model_options(policy_cls: type, cfg: Mapping[str, Any], schema: Schema) -> Schema:
    """Return the keys of `policy.model`: the parameters of the constructor of the model class, and of its encoder.

    `cfg` may name these classes, and `policy_cls` the default model. What `schema` declares replaces their defaults.
    """
    switches: dict[str, Any] = {}
    for switch in WRAPPER_REGISTRY:
        set_key(switches, switch, get_key(cfg, path := f"policy.{switch}", schema.get(path, OFF).default))
    policy_cls = wrapped(policy_cls, switches)
    # default_model may be an instance method, as in DI-engine, but it does not need an initialised policy.
    policy: Any = object.__new__(policy_cls)
    name, modules = policy.default_model()
    for module in modules:
        importlib.import_module(module)
    model_cls = MODEL_REGISTRY.find(get_key(cfg, "policy.model.type") or name)
    options: Schema = {"policy.model.type": Key(UNSET, "name in the model registry", str)}
    options |= _constructor_keys(model_cls, "policy.model.", schema)
    parameters = inspect.signature(model_cls).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    for path, key in schema.items():
        if path.startswith("policy.model.") and path not in options and not takes_any:
            raise ConfigError(
                f"{path} ({key.meaning or key.default}) is a key of policy '{get_key(cfg, 'policy.type')}', but its "
                f"model {model_cls.__name__} does not take it: add the argument to its constructor."
            )
    encoder = get_key(cfg, ENCODER)
    if ENCODER in options and options[ENCODER].type == EncoderChoice and encoder is not None:
        own = _encoder_options(encoder)
        options = {path: key for path, key in options.items() if path != ENCODER or not own} | own
    return options


def _encoder_options(encoder: Any) -> Schema:
    """Return the keys of the section `policy.model.encoder`; none if it is a name only."""
    if not isinstance(encoder, Mapping):
        ENCODER_REGISTRY.find(encoder)
        return {}
    encoder_cls = ENCODER_REGISTRY.find(encoder.get("type", ""))
    keys = _constructor_keys(encoder_cls, f"{ENCODER}.", {}, skip=2)  # the model passes these and the activation
    keys.pop(f"{ENCODER}.activation", None)
    return {f"{ENCODER}.type": Key(UNSET, "name in the encoder registry", str), **keys}


def _constructor_keys(cls: Any, prefix: str, schema: Schema, skip: int = 0) -> Schema:
    """Return the parameters of a constructor as keys after a prefix, without the first `skip` of them.

    What `schema` declares replaces default, meaning and limits.
    """
    try:
        hints = typing.get_type_hints(cls.__init__)
    except NameError:  # an annotation is imported for the type checker only
        hints = {}
    keys: Schema = {}
    for param in list(inspect.signature(cls).parameters.values())[skip:]:
        if param.kind not in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
            path, hint = prefix + param.name, hints.get(param.name, Any)
            own = schema.get(path, Key(UNSET, ""))  # the class has its own default
            required = param.default is param.empty and own.default in (UNSET, None)
            low, high = next(
                (limits for ends, limits in MODEL_RANGES.items() if param.name.endswith(ends)), (None, None)
            )
            keys[path] = replace(
                own,
                default=REQUIRED if required else own.default,
                type=(hint, None) if param.default is None and not matches(None, hint) else hint,
                low=low if own.low is None else own.low,
                high=high if own.high is None else own.high,
            )
    return keys


def drop_unused(cfg: dict[str, Any], schema: Schema, given: Mapping[str, Any], notes: list[str]) -> None:
    """Remove the keys of options that are off from a compiled config, see `Key.needs`.

    `notes` gets a sentence for every such key to which the user gave (`given`) another value than the default.
    """
    for path, key in schema.items():
        option = key.option(path, schema)
        if key.is_used(get_key(cfg, option), schema[option].default if option else False):
            continue
        pop_key(cfg, path)
        section = path.rpartition(".")[0]
        if not get_key(cfg, section):
            pop_key(cfg, section)
        if given.get(path, key.default) != key.default:
            values = key.needs.partition("=")[2].replace("|", " or ")
            needed = f"{option}={values}" if values else f"{option or key.needs} is set"
            notes.append(f"{path}={given[path]!r} has no effect: it is used only if {needed}.")


def show_error(error: BaseException) -> str:
    """Return the type of an error and the first line of its message."""
    name, text = type(error).__name__, traceback.format_exception_only(error)[-1].partition(": ")[2]
    text = (error.msg or "") if isinstance(error, SyntaxError) else text
    return name + (": " + text.strip().splitlines()[0] if text.strip() else "")


def plain(value: Any, path: str, depth: int = 0) -> Any:
    """Copy a config into plain dicts, lists, strings and Python numbers, which can be written to a file and read back.

    NumPy numbers become Python numbers. An activation of torch, `nn.Tanh()` or `nn.Tanh`, becomes its name, 'tanh'.

    Args:
        value: the config, or a value in it.
        path: its dotted key, for messages.
        depth: the level of nesting of `value`.
    """
    if depth > MAX_DEPTH:
        raise ConfigError(f"{path[:80]}...: nested deeper than {MAX_DEPTH} levels. Does it contain itself?")
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise ConfigError(f"{path}: expected strings as keys, got {show(wrong[0])}.")
        return {key: plain(value[key], f"{path}.{key}", depth + 1) for key in value}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise ConfigError(f"{path}: expected an integer of at most 64 bits, got {show(value)}.")
    if type(value) is str and any("\ud800" <= char <= "\udfff" for char in value):
        raise ConfigError(f"{path}: expected a string that can be written as UTF-8, got {show(value)}.")
    if value is None or type(value) in (bool, int, float, str):
        return value
    if is_activation(value):
        return activation_name(value, path)
    raise ConfigError(
        f"{path}: expected a number, string, list or dict, so that the config can be saved, got {show(value)}. Pass "
        "objects in code, such as the pipeline's argument `model`."
    )


def closest_path(path: str, schema: Schema) -> str:
    """Return a hint: the most similar known key at any level, or, if none is similar, the known keys of this level."""
    known = {".".join(parts[:i]) for parts in (p.split(".") for p in schema) for i in range(1, len(parts) + 1)}
    known |= LIMITS
    parent, _, name = path.rpartition(".")
    section = path.partition(".")[0]
    names = SYNONYMS.get(name.lower(), name.lower()).split(" ")

    def likeness(other: str) -> float:
        last = other.rpartition(".")[2].lower()
        same_name = max(difflib.SequenceMatcher(None, last, each).ratio() for each in names)
        elsewhere = bool(parent) and other.partition(".")[0] != section
        enough = 0.8 if elsewhere else 0.6  # a user who names a section rarely means another
        return same_name + 0.3 * difflib.SequenceMatcher(None, other, path).ratio() if same_name > enough else 0.0

    best = max(sorted(known), key=likeness) if len(path) <= LONGEST_KEY else ""
    if best and likeness(best):
        where = " It is a limit: a word of the command line, or a key of the file's `limits`." if best in LIMITS else ""
        return f" Did you mean '{best}'?{where}"
    siblings = sorted(other.rpartition(".")[2] for other in known - LIMITS if other.rpartition(".")[0] == parent)
    return f" Known in '{parent or 'main_config'}': {', '.join(siblings)}."

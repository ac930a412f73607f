"""What a config may say: the keys, defaults and types that its classes declare.

A class declares `config`, nested defaults, and `config_types`, dotted key -> hint, where a default does not tell the
type. A hint is a type, a `typing` annotation (`Literal` too) or a tuple of them; `dict` has free content, `Any` is
anything. A schema is flat: dotted key -> `(default, hint)`. In the place of a default, `UNSET` leaves the key out and
`REQUIRED` says that somebody must set it; in the place of a hint, `SECTION` is a dict that has no options yet.
"""

from __future__ import annotations

import importlib
import inspect
import traceback
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ding_lite.envs.vector_env import ENV_DEFAULTS
from ding_lite.utils.registry import BUFFER_REGISTRY, ENV_REGISTRY, MODEL_REGISTRY, POLICY_REGISTRY, ConfigError

Schema = dict[str, tuple[Any, Any]]
UNSET, REQUIRED, SECTION = object(), object(), object()
BUFFER = "policy.other.replay_buffer"
MAX_DEPTH = 50  # of what a config nests
# What DI-engine's config files write as an object of torch, by its text; torch is not imported for it.
ACTIVATIONS = {
    "Tanh()": "tanh",
    "ReLU()": "relu",
    "ReLU(inplace=True)": "relu",
    "GELU(approximate='none')": "gelu",
    "ELU(alpha=1.0)": "elu",
}
DEFAULTS = dict(
    exp_name="default_experiment",  # (str) experiment and its directory, relative to where the run starts
    seed=0,  # (int) seed of everything random: networks, exploration, environments, replay
)
# What the defaults of None in ENV_DEFAULTS leave open, and its dict of free content.
ENV_TYPES = dict(env_id=(str, None), stop_value=(float, None), max_episode_steps=(int, None), kwargs=dict)


def config_schema(user: dict, model_given: bool = False) -> Schema:
    """Return every key that a config with the types of `user` may set; what registers them is imported already."""
    policy_type, env_type = get_key(user, "policy.type"), get_key(user, "env.type", ENV_DEFAULTS["type"])
    for path, value in (("create_config.policy.type", policy_type), ("create_config.env.type", env_type)):
        if not isinstance(value, str):
            raise ConfigError(
                f"{path}: expected a registered name such as {path[14:-5]}=dict(type=...), got {show(value)}."
            )
    policy_cls = POLICY_REGISTRY.find(policy_type)
    env_cls = object if env_type == ENV_DEFAULTS["type"] else ENV_REGISTRY.find(env_type)
    policy = class_options(policy_cls, "policy.", {"import_names": []})
    schema = _options(DEFAULTS, {}, "") | class_options(env_cls, "env.", ENV_DEFAULTS, ENV_TYPES)
    if BUFFER + ".type" in policy:
        prioritized = get_key(user, "policy.priority", policy.get("policy.priority", (False,))[0])
        default = policy[BUFFER + ".type"][0] or ("prioritized" if prioritized else "uniform")
        buffer_type = get_key(user, BUFFER + ".type") or default
        schema |= class_options(BUFFER_REGISTRY.find(buffer_type), BUFFER + ".")
        policy[BUFFER + ".type"] = (buffer_type, str)
    schema |= policy | {"env.type": (env_type, str), "policy.type": (policy_type, str)}
    if model_given:
        return {path: schema[path] for path in schema if not path.startswith("policy.model.")} | {
            "policy.model": ({}, dict)
        }
    return schema | model_options(policy_cls, get_key(user, "policy.model.type"), schema)


def class_options(cls: type, prefix: str, defaults: Mapping = {}, hints: Mapping = {}) -> Schema:
    """Return `config` and `config_types` of a class and its bases over the given ones, the most derived last."""
    merged, all_hints = dict(defaults), dict(hints)
    for base in reversed(cls.__mro__):
        merged = merge(merged, vars(base).get("config", {}))
        all_hints |= vars(base).get("config_types", {})
        for path in vars(base).get("config_without", ()):
            section, _, key = path.rpartition(".")
            (get_key(merged, section) if section else merged).pop(key, None)
    return _options(merged, all_hints, prefix)


def _options(node: Mapping, hints: Mapping[str, Any], prefix: str, inner: str = "") -> Schema:
    schema: Schema = {}
    for key, value in node.items():
        path = inner + key
        if isinstance(value, Mapping) and value and path not in hints:
            schema |= _options(value, hints, prefix, path + ".")
        else:
            hint = SECTION if value == {} else Any if value is None else type(value)
            schema[prefix + path] = (plain(value, prefix + path), hints.get(path, hint))
    return schema


def model_options(policy_cls: type, model_type: str | None, schema: Schema) -> Schema:
    """Return the options of `policy.model`: the parameters of the model class, with the defaults of `schema`."""
    # default_model may be a plain method, as in DI-engine; it never needs the built policy.
    policy: Any = object.__new__(policy_cls)
    name, modules = policy.default_model()
    for module in modules:
        importlib.import_module(module)
    model_cls: Any = MODEL_REGISTRY.find(model_type or name)
    try:
        hints = typing.get_type_hints(model_cls.__init__)
    except NameError:  # an annotation that is imported for the type checker only
        hints = {}
    options: Schema = {"policy.model.type": (UNSET, str)}
    for param in inspect.signature(model_cls).parameters.values():
        if param.kind not in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
            path, hint = f"policy.model.{param.name}", hints.get(param.name, Any)
            default = REQUIRED if param.default is param.empty else UNSET  # the model supplies its own
            nullable = param.default is None and not matches(None, hint)
            options[path] = (schema.get(path, (default, None))[0], (hint, None) if nullable else hint)
    return options


def matches(value: Any, hint: Any) -> bool:
    """Tell whether a plain value has a type: an int is a float, a bool is no int, a list is a tuple."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, tuple) or origin in (typing.Union, types.UnionType):
        return any(matches(value, option) for option in (args or hint))
    if origin is typing.Literal:
        return any(value == option and type(value) is type(option) for option in args)
    kind = origin or hint
    if kind in (float, int):
        return isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    if kind in (list, tuple, Sequence):
        return isinstance(value, list) and all(matches(item, args[0]) for item in value if args)
    return (
        value is None if kind in (None, types.NoneType) else isinstance(value, kind) if isinstance(kind, type) else True
    )


def describe(hint: Any) -> str:
    """Say what `matches` accepts."""
    if isinstance(hint, tuple):
        return " or ".join(dict.fromkeys(describe(option) for option in hint))
    text = str(hint) if typing.get_args(hint) else getattr(hint, "__name__", str(hint))
    for long, short in (("collections.abc.Sequence", "list"), ("typing.", ""), ("NoneType", "None"), (" | ", " or ")):
        text = text.replace(long, short)
    return text


def show(value: Any) -> str:
    """Return type and value for an error message, whatever the value is."""
    try:
        text = repr(value)
    except Exception as error:  # a class of the user's; also an int of thousands of digits
        text = f"(its repr fails with {type(error).__name__})"
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def show_error(error: BaseException) -> str:
    """Return type and first line of an error's message, whatever it is."""
    name, text = type(error).__name__, traceback.format_exception_only(error)[-1].partition(": ")[2]
    text = (error.msg or "") if isinstance(error, SyntaxError) else text
    return name + (": " + text.strip().splitlines()[0] if text.strip() else "")


def plain(value: Any, path: str, depth: int = 0) -> Any:
    """Deep-copy a config into dicts, lists and python numbers, which can be written to a file and read again.

    An activation of torch's, such as `nn.Tanh()`, becomes its name, 'tanh'.
    """
    if depth > MAX_DEPTH:
        raise ConfigError(f"{path[:80]}...: nested deeper than {MAX_DEPTH} levels. Does it hold itself?")
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise ConfigError(f"{path}: expected names as keys, got {show(wrong[0])}.")
        return {key: plain(item, f"{path}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise ConfigError(f"{path}: expected a number of at most 64 bits, got {show(value)}.")
    if type(value) is str and any("\ud800" <= char <= "\udfff" for char in value):
        raise ConfigError(f"{path}: expected a text that a file can hold, got {show(value)}.")
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value).__module__ == "torch.nn.modules.activation" and repr(value) in ACTIVATIONS:
        return ACTIVATIONS[repr(value)]
    raise ConfigError(
        f"{path}: expected numbers, texts, lists and dicts, which a saved config can repeat, got {show(value)}. Hand "
        "objects over in code, such as the pipeline's model argument."
    )


def merge(low: Mapping, high: Mapping) -> dict:
    """Return a copy of `low` with the values of `high` over it, dict by dict."""
    merged = dict(low)
    for key, value in high.items():
        inner = merged.get(key)
        merged[key] = merge(inner if isinstance(inner, Mapping) else {}, value) if isinstance(value, Mapping) else value
    return merged


def get_key(cfg: Any, path: str, default: Any = None) -> Any:
    """Return the value of a dotted key, or `default` where something on the way is missing."""
    for key in path.split("."):
        if not isinstance(cfg, Mapping) or key not in cfg:
            return default
        cfg = cfg[key]
    return cfg


def set_key(cfg: dict, path: str, value: Any) -> None:
    """Set a dotted key, making the dicts on the way."""
    *parents, last = path.split(".")
    for key in parents:
        cfg = cfg.setdefault(key, {})
        if not isinstance(cfg, dict):
            raise ConfigError(f"{path}: '{key}' must be a dict of options, got {show(cfg)}.")
    cfg[last] = value

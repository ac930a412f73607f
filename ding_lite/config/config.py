"""Read, compile, check and save configs.

A run is described by two dicts: `main_config` (what the user tunes) and `create_config` (which environment, manager,
policy and buffer to build). Compiling merges, low to high: class defaults, `create_config`, `main_config`, command-line
overrides. The class defaults are the schema: every key that a user writes must be known to one of them and have its
type, so a misspelt key stops the run with the closest known name instead of being ignored. All of this happens before an
environment worker starts, and nothing that the user passed in is modified.

A schema is a flat dict: dotted key -> `(default, hint)`, where a hint is a type, a `typing` annotation or a tuple of
them; `dict` means free content, `Any` unchecked. `_UNSET` as the default means that the key has none.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import math
import numbers
import sys
import traceback
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from easydict import EasyDict

from ding_lite.config.compat import IGNORED_KEYS, MANAGERS, RENAMED_KEYS
from ding_lite.envs.vector_env import ENV_DEFAULTS, EnvSpec
from ding_lite.utils.registry import (
    BUFFER_REGISTRY,
    ENV_REGISTRY,
    MODEL_REGISTRY,
    POLICY_REGISTRY,
    ConfigError,
    closest,
)

Schema = dict[str, tuple[Any, Any]]
_UNSET = object()
# What fills the registries; imported when a config is compiled, as the config's own import_names are.
_BUILTIN = ("ding_lite.model", "ding_lite.policy", "ding_lite.worker")

DEFAULTS = dict(
    # (str) Name of the experiment and of its directory, relative to where the run is started
    exp_name="default_experiment",
    # (int) Seed of everything random: networks, exploration, environments, replay
    seed=0,
)
_POSITIVE = (
    "env.collector_env_num env.evaluator_env_num env.n_evaluator_episode policy.nstep policy.learn.batch_size "
    "policy.learn.update_per_collect policy.collect.n_sample policy.collect.n_episode "
    "policy.eval.evaluator.eval_freq policy.other.replay_buffer.replay_buffer_size"
).split()


def read_config(path: str | Path) -> tuple[dict, dict]:
    """Run the python file at `path` (not as `__main__`) and return its `main_config` and `create_config`.

    Raises:
        ConfigError: no such file, it fails (the message has file and line), or it lacks one of the two names.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"Config file '{path}' does not exist. Give the path of a python file with main_config.")
    # A module of its own, kept in sys.modules, so that classes defined in the file can be pickled.
    module = types.ModuleType(f"_ding_lite_config_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        # No import: a cached .pyc could be older than a file edited twice within a second.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as err:
        frames = traceback.extract_tb(err.__traceback__)
        line = err.lineno if isinstance(err, SyntaxError) else [f.lineno for f in frames if f.filename == str(path)][-1:]
        line = line[0] if isinstance(line, list) and line else line
        raise ConfigError(f"Config file '{path}', line {line or 1}: {type(err).__name__}: {err}.") from err
    for name in ("main_config", "create_config"):
        if not isinstance(getattr(module, name, None), dict):
            raise ConfigError(f"Config file '{path}', line 1: defines no dict called '{name}'.{closest(name, vars(module))}")
    return module.main_config, module.create_config


def compile_config(
    input_cfg: str | Path | Sequence[dict],
    seed: int | None = None,
    model_given: bool = False,
    overrides: Sequence[str] = (),
) -> EasyDict:
    """Merge a config pair with the class defaults, check every key, and return the whole config.

    Args:
        input_cfg: `(main_config, create_config)`, or the path of a python file that defines both.
        seed: Used instead of the config's own seed.
        model_given: The user passes a model object, so `policy.model` may hold anything.
        overrides: `dotted.key=value` strings, stronger than everything else.

    Returns:
        The config, with `notes`: a list of sentences about keys that were moved or have no meaning here.

    Raises:
        ConfigError: an unknown key, type or value; the message says which, what was expected and what to do.
    """
    pair = read_config(input_cfg) if isinstance(input_cfg, (str, Path)) else input_cfg
    if not isinstance(pair, Sequence) or len(pair) != 2 or not all(isinstance(p, dict) for p in pair):
        raise ConfigError(f"Expected a pair (main_config, create_config) of dicts or a path, got {_show(pair)}.")
    main, create = _plain(pair[0], "main_config"), _plain(pair[1], "create_config")
    notes: list[str] = []
    user = _merge(_translate_create(create, notes), main)
    raw = _apply_overrides(user, overrides)
    if seed is not None:
        user["seed"] = seed
    _rename_keys(user, notes)
    _import_modules(user)
    schema = config_schema(user, model_given)
    cfg = EasyDict(_with_defaults(schema, dict(_checked_items(user, schema, raw, notes))))
    _check_values(cfg)
    POLICY_REGISTRY.find(cfg.policy.type).check_config(cfg)
    cfg.notes = notes
    return cfg


def _plain(value: Any, key: str) -> Any:
    """Deep-copy a config into dicts, lists and python numbers, which can be written to a file and read again."""
    if isinstance(value, dict):
        for k in value:
            if not isinstance(k, str):
                raise ConfigError(f"{key}: expected strings as keys, got {_show(k)}.")
        return {k: _plain(v, f"{key}.{k}") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, f"{key}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ConfigError(
        f"{key}: expected plain data (number, str, bool, None, list, dict), which a saved config can repeat, "
        f"got {_show(value)}. Pass objects in code instead, for example as the pipeline's model argument."
    )


def _translate_create(create: dict, notes: list[str]) -> dict:
    """Return `create_config` as the part of the config that it decides."""
    for key in set(create) - {"env", "env_manager", "policy", "replay_buffer"}:
        if f"create_config.{key}" not in IGNORED_KEYS:
            raise ConfigError(f"Unknown key 'create_config.{key}'.{closest(key, ('env_manager', 'replay_buffer'))}")
        notes.append(f"create_config.{key} is ignored: {IGNORED_KEYS[f'create_config.{key}'][1]}.")
    for key, value in create.items():
        if not isinstance(value, dict):
            raise ConfigError(f"create_config.{key}: expected a dict such as dict(type=...), got {_show(value)}.")
    cfg: dict[str, Any] = _merge({"env": {}, "policy": {}}, {k: create[k] for k in ("env", "policy") if k in create})
    if "env_manager" in create:
        manager = dict(create["env_manager"])
        name = manager.pop("type", "base")
        if name not in MANAGERS:
            raise ConfigError(f"Unknown create_config.env_manager.type {_show(name)}.{closest(str(name), MANAGERS)}")
        if MANAGERS[name] != name:
            notes.append(f"create_config.env_manager.type '{name}' is '{MANAGERS[name]}' here.")
        cfg["env"] = _merge({"manager": {**manager, "type": MANAGERS[name]}}, cfg["env"])
    if "replay_buffer" in create:
        cfg["policy"] = _merge({"other": {"replay_buffer": create["replay_buffer"]}}, cfg["policy"])
    name = cfg["policy"].get("type")
    if isinstance(name, str) and name.endswith("_command"):
        cfg["policy"]["type"] = name.removesuffix("_command")
        notes.append(f"create_config.policy.type '{name}' is '{cfg['policy']['type']}' here.")
    return cfg


def _merge(low: dict, high: Mapping) -> dict:
    """Return a copy of `low` with the values of `high` over it, dict by dict."""
    merged = dict(low)
    for key, value in high.items():
        nested = isinstance(value, Mapping)
        merged[key] = _merge(low[key] if isinstance(low.get(key), dict) else {}, value) if nested else value
    return merged


def _set(cfg: dict, path: str, value: Any) -> None:
    """Set a dotted key, making the dicts on the way."""
    *parents, last = path.split(".")
    for i, key in enumerate(parents):
        cfg = cfg.setdefault(key, {})
        if not isinstance(cfg, dict):
            raise ConfigError(f"{'.'.join(parents[: i + 1])}: expected a dict, got {_show(cfg)}.")
    cfg[last] = value


def _get(cfg: Any, path: str, default: Any = None) -> Any:
    """Return the value of a dotted key, or `default` where something on the way is missing."""
    for key in path.split("."):
        if not isinstance(cfg, Mapping) or key not in cfg:
            return default
        cfg = cfg[key]
    return cfg


def _apply_overrides(user: dict, overrides: Sequence[str]) -> dict[str, str]:
    """Write `key=value` strings into `user`; return the text of each value, for keys that want a str."""
    raw = {}
    for item in overrides:
        path, sep, text = item.partition("=")
        if not sep or not path:
            raise ConfigError(f"Override '{item}': expected dotted.key=value, such as policy.learn.batch_size=16.")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        _set(user, path, _plain(value, path))
        raw[path] = text
    return raw


def _rename_keys(user: dict, notes: list[str]) -> None:
    """Move values from DI-engine's older names to the names used here."""
    for old, new in RENAMED_KEYS.items():
        parent, _, last = old.rpartition(".")
        value = _get(user, old, _UNSET)
        if value is _UNSET:
            continue
        if _get(user, new, value) != value:
            raise ConfigError(f"{old}={value!r} contradicts {new}={_get(user, new)!r}. Keep '{new}' only.")
        del _get(user, parent)[last]
        _set(user, new, value)
        notes.append(f"{old} is {new} here.")


def _import_modules(user: dict) -> None:
    """Import what registers the classes: the built-in packages and the config's `import_names`."""
    for name in _BUILTIN:
        importlib.import_module(name)
    for key in ("env.import_names", "policy.import_names"):
        names = _get(user, key, [])
        if not _matches(names, list[str]):
            raise ConfigError(f"create_config.{key}: expected a list of module names, got {_show(names)}.")
        for name in names:
            try:
                importlib.import_module(name)
            except ImportError as err:
                raise ConfigError(f"create_config.{key}: cannot import '{name}': {err}. Is it installed?") from err


def config_schema(user: dict, model_given: bool = False) -> Schema:
    """Return every key that a config with these types may set: dotted key -> `(default, hint)`."""
    policy_type = _get(user, "policy.type", _UNSET)
    if not isinstance(policy_type, str):
        raise ConfigError(f"create_config.policy.type is missing. Known: {', '.join(sorted(POLICY_REGISTRY))}.")
    policy_cls = POLICY_REGISTRY.find(policy_type)
    env_type = _get(user, "env.type", ENV_DEFAULTS.get("type", "gymnasium"))
    schema = dict(_options(DEFAULTS, {}, ""))
    schema.update(_options(ENV_DEFAULTS, ENV_TYPES, "env."))
    if env_type in ENV_REGISTRY or env_type != ENV_DEFAULTS.get("type", "gymnasium"):
        schema.update(_class_options(ENV_REGISTRY.find(env_type), "env."))
    policy = dict(_class_options(policy_cls, "policy."))
    buffer = "policy.other.replay_buffer."
    if any(path.startswith(buffer) for path in policy):
        default = policy.get(buffer + "type", ("uniform", str))[0]
        schema.update(_class_options(BUFFER_REGISTRY.find(_get(user, buffer + "type", default)), buffer))
    schema.update(policy)
    schema.update({f"{part}.import_names": ([], list[str]) for part in ("env", "policy")})
    schema.update({"env.type": (env_type, str), "policy.type": (policy_type, str)})
    if model_given:
        free = {path for path in schema if path.startswith("policy.model")}
        return {path: option for path, option in schema.items() if path not in free} | {"policy.model": ({}, dict)}
    return schema | _model_options(policy_cls, _get(user, "policy.model", {}), schema)


def _options(defaults: Mapping, hints: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Flatten nested defaults; `hints` (dotted, relative to `prefix`) say what a default value cannot."""

    def walk(node: Mapping, path: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
        for key, value in node.items():
            here = path + key
            if isinstance(value, Mapping) and value and here not in hints:
                yield from walk(value, here + ".")
            else:
                yield prefix + here, (value, hints.get(here, Any if value is None else type(value)))

    yield from ((prefix + path, (_UNSET, hint)) for path, hint in hints.items())
    yield from walk(defaults, "")


def _class_options(cls: type, prefix: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Flatten `config` and `config_types` of a class and its bases, the most derived last."""
    defaults: dict = {}
    hints: dict = {}
    for base in reversed(cls.__mro__):
        defaults = _merge(defaults, vars(base).get("config", {}))
        hints |= vars(base).get("config_types", {})
    return _options(defaults, hints, prefix)


def _model_options(policy_cls: type, model_cfg: Any, schema: Schema) -> Schema:
    """Return the options of `policy.model`: the parameters of the model class, with the policy's own defaults."""
    # default_model may be a plain method, as in DI-engine; it never needs the built policy.
    name, modules = object.__new__(policy_cls).default_model()
    for module in modules:
        importlib.import_module(module)
    init = MODEL_REGISTRY.find(_get(model_cfg, "type", name)).__init__
    hints = typing.get_type_hints(init)
    options: Schema = {"policy.model.type": (_UNSET, str)}
    for param in list(inspect.signature(init).parameters.values())[1:]:
        if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
            continue
        path, default = f"policy.model.{param.name}", param.default
        hint = hints.get(param.name, Any if default in (None, param.empty) else type(default))
        if default is param.empty or not _is_plain(default):
            default = _UNSET  # the model itself supplies what cannot be written to a file
        options[path] = (schema.get(path, (default, None))[0], (hint, None) if default is None else hint)
    return options

"""Merges what a user writes: `create_config`, `main_config` and overrides; and imports the modules that they name."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ding_lite.config.saved import append_to_path
from ding_lite.config.schema import BUFFER, PARTS, plain, show_error
from ding_lite.envs.builders import MANAGERS
from ding_lite.utils.key import get_key, matches, merge_keys, set_key, show
from ding_lite.utils.registry import LEARNING_PARTS, ConfigError, closest, place_of, registered_names

PLACES = {"env_manager": "env.manager", "replay_buffer": BUFFER}  # parts of create_config, and their places here
CREATED = ("env", "env_manager", "policy", "replay_buffer", *LEARNING_PARTS)  # parts of create_config
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
OLD_ANTS, CONTACTS = ("Ant-v2", "Ant-v3"), "env.kwargs.use_contact_forces"  # off by default in Ant-v4


def merge_user(
    pair: tuple[dict[str, Any], dict[str, Any]], overrides: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Merge the user's dicts and overrides, and import the modules that they name.

    Returns:
        The nested keys, and the unparsed values of the overrides by dotted key.
    """
    user = merge_keys(nest(plain(pair[1], "create_config")), plain(pair[0], "main_config"))
    texts = apply_overrides(user, overrides)
    import_modules(user)
    return user, texts


def nest(create: dict[str, Any]) -> dict[str, Any]:
    """Return the nested keys of `create_config` in the form of `main_config`."""
    for key, value in create.items():
        path = f"create_config.{key}"
        if not isinstance(value, dict):
            known = f" Its types: {', '.join(MANAGERS)}." if key == "env_manager" else ""
            raise ConfigError(f"{path}: expected a dict such as dict(type=...), got {show(value)}.{known}")
        if key not in CREATED:
            raise ConfigError(f"Unknown key '{path}'.{closest(key, CREATED)}")
    parts = {key: dict(create[key]) for key in CREATED if key in create}
    name = parts.get("env_manager", {}).get("type", "base")
    if not isinstance(name, str) or name not in MANAGERS:
        hint = f"{closest(str(name), MANAGERS)} Known: {', '.join(MANAGERS)}."
        raise ConfigError(f"Unknown create_config.env_manager.type '{name}'.{hint}")
    cfg: dict[str, Any] = {"env": {"manager": parts.pop("env_manager", {})}, "policy": {}}
    if buffer := parts.pop("replay_buffer", {}):
        set_key(cfg, BUFFER, buffer)
    return merge_keys(cfg, parts)


def apply_overrides(user: dict[str, Any], overrides: Sequence[str]) -> dict[str, str]:
    """Write `key=value` strings into `user`. Return the unparsed values by dotted key, for keys of type str."""
    texts = {}
    for item in overrides:
        path, sep, text = item.partition("=")
        if not sep or not path:
            raise ConfigError(f"Override '{item}': expected dotted.key=value, such as policy.learn.batch_size=16.")
        part, dot, rest = path.partition(".")
        path = f"{PLACES.get(part, part)}{dot}{rest}"
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        set_key(user, path, plain(value, path))
        texts[path] = text
    return texts


def import_modules(user: dict[str, Any]) -> None:
    """Import the modules of `import_names`, which register classes; the current directory may contain them.

    gymnasium's 'module:Id-v0' names an environment and its module.
    """
    env_id, names = get_key(user, "env.env_id"), get_key(user, "env.import_names", [])
    if isinstance(env_id, str) and ":" in env_id and isinstance(names, list):
        module, _, name = env_id.partition(":")
        set_key(user, "env.env_id", name)
        set_key(user, "env.import_names", [*names, module])
    append_to_path([os.getcwd()])
    for path in (f"{part}.import_names" for part in PARTS):
        names = get_key(user, path, [])
        if not matches(names, list[str]):
            raise ConfigError(f"create_config.{path}: expected a list of module names, got {show(names)}.")
        for name in names:
            try:
                import_module(name)
            except ConfigError:  # its message already says what is wrong
                raise
            except ImportError as error:
                raise ConfigError(f"create_config.{path}: cannot import '{name}': {error}. Is it installed?") from error
            except (Exception, SystemExit) as error:
                raise ConfigError(
                    f"create_config.{path}: '{name}' fails: {place_of(error)}{show_error(error)}."
                ) from error


def import_module(name: str) -> ModuleType:
    """Import a module that `import_names` lists.

    The module paths of DI-engine are accepted for modules of this package: `ding_lite.policy.cql`, for instance,
    imports `ding_lite.offline.policy.cql`, and `ding_lite.policy.td3` the module that registers 'td3'.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        own, *names = name.split(".")
        if own != "ding_lite" or len(names) < 2 or error.name is None or not name.startswith(error.name):
            raise
        for found in pkgutil.walk_packages(importlib.import_module(own).__path__, f"{own}."):
            if f".{names[0]}." in found.name and found.name.endswith(f".{names[-1]}"):
                return importlib.import_module(found.name)
        for modules in registered_names().values():
            if names[-1] in modules:
                return importlib.import_module(modules[names[-1]])
        raise


def rename_env(user: dict[str, Any], notes: list[str]) -> None:
    """Replace an id that gymnasium has retired by its successor."""
    env_id = get_key(user, "env.env_id")
    if isinstance(env_id, str) and env_id in RENAMED_IDS:
        set_key(user, "env.env_id", RENAMED_IDS[env_id])
        notes.append(f"env.env_id '{env_id}' is '{RENAMED_IDS[env_id]}' here: gymnasium has retired the old version.")
        if env_id in OLD_ANTS and get_key(user, CONTACTS) is None:
            set_key(user, CONTACTS, True)
            notes.append(f"{CONTACTS} is True, as in '{env_id}'.")

"""Reads, compiles, checks and saves configs.

Two dicts describe a run. `main_config` contains the values that a user tunes. `create_config` names the classes of the
environment, its manager, the policy and the buffer. Compiling merges four sources into one config; each overrides those
before it: the defaults of the classes, `create_config`, `main_config`, and the overrides of the command line.

The keys that the classes declare form the schema (`schema.py`). Every key that a user sets must be declared, and its
value must have the declared type and range. A misspelt key is therefore an error, which names the closest known key.
All checks are done before an environment worker starts. The user's dicts are never modified.
"""

from __future__ import annotations

import copy
import importlib
import os
import pprint
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from easydict import EasyDict

from ding_lite.config import schema as sc
from ding_lite.config.checks import check_policy, check_schedule, check_values, round_counts
from ding_lite.config.saved import append_to_path
from ding_lite.config.shapes import check_action_space
from ding_lite.config.unread import unread_keys
from ding_lite.config.user import merge_user, rename_env
from ding_lite.envs.keys import ENV_KEYS
from ding_lite.utils.key import SECTION, ConfigDict, get_key, has_fields, is_schedule, matches, set_key, show
from ding_lite.utils.registry import CONFIG_MODULE, ConfigError, closest

# The dicts of a config file, in short, for messages.
LEAST = {
    "main_config": " Add main_config = dict(exp_name='my_run').",
    "create_config": " Add create_config = dict(policy=dict(type='ppo')).",
}


def read_file(path: str | Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """Run a Python file once, not as `__main__`, and return its `main_config`, its `create_config` and its `limits`.

    A file need not define `limits` of the run, such as `max_env_step`. It, and `import_names`, can import modules from
    its directory, which is added to `sys.path`, as Python does for a script, and from the current one.

    Raises:
        ConfigError: the file does not exist, fails when it is run, or does not define both dicts, or its limits are not
            a dict of whole numbers.
    """
    module = _run_file(Path(path))
    limits = getattr(module, "limits", {})
    if not isinstance(limits, dict) or not all(isinstance(number, int) for number in limits.values()):
        raise ConfigError(f"'{path}': expected limits such as limits = dict(max_env_step=20000), got {show(limits)}.")
    return _get_dict(module, "main_config"), _get_dict(module, "create_config"), limits


def read_config(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `main_config` and `create_config` of a Python file, see `read_file`."""
    return read_file(path)[:2]


def read_pair(input_cfg: str | Path | Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `(main_config, create_config)`, which are given themselves or by the path of a Python file."""
    pair = read_config(input_cfg) if isinstance(input_cfg, (str, Path)) else input_cfg
    if not isinstance(pair, Sequence) or len(pair) != 2 or not all(isinstance(part, dict) for part in pair):
        raise ConfigError(f"Expected (main_config, create_config) or the path of a config file, got {show(pair)}.")
    return pair[0], pair[1]


def _get_dict(module: ModuleType, name: str) -> dict[str, Any]:
    value = getattr(module, name, None)
    if not isinstance(value, dict):
        others = [key for key, value in vars(module).items() if isinstance(value, dict) and key not in LEAST]
        hint = closest(name, others) or LEAST.get(name, "")
        raise ConfigError(f"Config file '{module.__file__}', line 1: expected a dict called '{name}', got none.{hint}")
    return value


def _run_file(path: Path) -> ModuleType:
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise ConfigError(f"Config file '{path}' {what}: give the path of a Python file.")
    append_to_path([os.getcwd()])
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # The module is removed from sys.modules afterwards: workers cannot import it, so its classes must be pickled by
    # value. It is not imported, because after two edits in a second Python would reuse an outdated .pyc.
    module = sys.modules[CONFIG_MODULE + path.stem] = ModuleType(CONFIG_MODULE + path.stem)
    module.__file__ = str(path)
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = frames[-1] if frames else getattr(error, "lineno", None) or 1
        raise ConfigError(f"Config file '{path}', line {line}: {sc.show_error(error)}.") from error
    finally:
        del sys.modules[module.__name__]
    return module


def find_policy(input_cfg: str | Path | Sequence[dict[str, Any]], overrides: Sequence[str] = ()) -> Any:
    """Return the class of a config's policy; arguments as for `compile_config`."""
    pair = read_pair(input_cfg)
    with suppress(ConfigError):
        return sc.find_class("policy", merge_user(pair, overrides)[0])
    return sc.find_class("policy", _di_engine().translate_types(pair, overrides)[0])


def _di_engine() -> ModuleType:
    """Return the room that translates what DI-engine writes otherwise. Most configs need no translation."""
    return importlib.import_module("ding_lite.di_engine.translation")


def replace_values(
    input_cfg: str | Path | Sequence[dict[str, Any]], values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `(main_config, create_config)` with other values; the given dicts are not changed.

    `values` are nested dicts, whose keys may be dotted. A dict is merged into the config's dict; a schedule replaces
    another one, and a dict any other value. A `Path` becomes a string.
    """
    main, create = read_pair(input_cfg)
    main = sc.plain(main, "main_config")
    _replace(main, values, "")
    return main, create


def _replace(main: dict[str, Any], values: Mapping[str, Any], prefix: str) -> None:
    for key in values:
        path, value = f"{prefix}{key}", values[key]
        old = get_key(main, path, {})
        whole = has_fields(old) and has_fields(value)  # one schedule for another
        if isinstance(value, Mapping) and value and isinstance(old, dict) and not whole:
            _replace(main, value, f"{path}.")
        else:
            set_key(main, path, sc.plain(str(value) if isinstance(value, Path) else value, path))


def compile_config(
    input_cfg: str | Path | Sequence[dict[str, Any]] | dict[str, Any],
    *classes: Any,
    seed: int | None = None,
    model_given: bool = False,
    overrides: Sequence[str] = (),
    create_cfg: dict[str, Any] | None = None,
    auto: bool = True,
    save_cfg: bool = False,
    save_path: str = "total_config.py",
) -> EasyDict:
    """Merge a config with the defaults of its classes, and check every key.

    Args:
        input_cfg: `(main_config, create_config)`, or the path of a Python file that defines both; with `create_cfg`,
            `main_config` alone.
        *classes: as in DI-engine, the classes of a run, of which only the policy's counts: it is used if there is no
            `create_config`.
        seed: replaces the config's `seed`.
        model_given: whether the user passes a model object. `policy.model` is then not checked.
        overrides: `dotted.key=value` strings, which replace values of all other sources.
        create_cfg: `create_config`, if `input_cfg` does not contain it.
        auto: only True: the classes are those that `create_config` names, as DI-engine finds them with auto=True.
        save_cfg: write the compiled config into the directory `exp_name`, which is created.
        save_path: the file's name there.

    Returns:
        The compiled config. Its key `notes` is a list of sentences about keys that were renamed or ignored.

    Raises:
        ConfigError: an unknown key, or a value of the wrong type or range. The message names the key, what was
            expected, and what to do.
    """
    if classes and not create_cfg:
        create_cfg = _di_engine().create_from(classes)
    if not (auto or classes):
        raise ConfigError(
            "compile_config(auto=False): give create_config, which names the classes, and leave auto out."
        )
    pair = read_pair(input_cfg if create_cfg is None else (input_cfg, create_cfg))  # type: ignore[arg-type]
    cfg = compile_pair(pair, seed, model_given, overrides).cfg
    if save_cfg:
        save_config(cfg, os.path.join(cfg.exp_name, save_path))
    return cfg


class Compiled(NamedTuple):
    """A compiled config, the class of its policy, and its schema."""

    cfg: EasyDict
    policy_cls: Any
    schema: sc.Schema


def compile_pair(
    pair: tuple[dict[str, Any], dict[str, Any]], seed: int | None, model_given: bool, overrides: Sequence[str]
) -> Compiled:
    """Do what `compile_config` does, for `(main_config, create_config)`."""
    policy_cls, schema, values, notes = _read_twice(pair, seed, model_given, overrides)
    cfg = _fill_in(schema, values)
    round_counts(cfg, policy_cls, notes)
    check_values(cfg, policy_cls)
    check_policy(cfg, policy_cls)
    sc.drop_unused(cfg, schema, values, notes)
    cfg.notes = [*notes, *_unread_notes(cfg)]
    return Compiled(cfg, policy_cls, schema)


def _read_twice(
    pair: tuple[dict[str, Any], dict[str, Any]], seed: int | None, model_given: bool, overrides: Sequence[str]
) -> tuple[Any, sc.Schema, dict[str, Any], list[str]]:
    """Read a config as one of ding_lite and, if this finds a mistake, once more as one of DI-engine.

    The error is that of the second reading. Returns what `_check_keys` does.
    """
    check = partial(_check_keys, seed=seed, model_given=model_given)
    with suppress(ConfigError):
        user, texts = merge_user(pair, overrides)
        if not (model_given and get_key(user, "policy.model")):  # of a model object, no class declares the keys
            return check(user, texts, [])
    return check(*_di_engine().translate(pair, overrides, model_given))


def _check_keys(
    user: dict[str, Any], texts: dict[str, str], notes: list[str], seed: int | None, model_given: bool
) -> tuple[Any, sc.Schema, dict[str, Any], list[str]]:
    """Return the policy's class, the schema, the values that the user set by dotted key, and notes."""
    user |= {} if seed is None else {"seed": seed}
    if get_key(user, "policy.divide") is True and get_key(user, "policy.multi_gpu") is None:
        set_key(user, "policy.multi_gpu", True)
    rename_env(user, notes)
    policy_cls = sc.find_class("policy", user)
    schema = sc.config_schema(user, policy_cls, model_given)
    check_action_space(user, policy_cls)
    return policy_cls, schema, dict(_checked_items(user, "", schema, texts)), notes


def _unread_notes(cfg: EasyDict) -> Iterator[str]:
    for part, registry in sc.PARTS.items():
        cls: type = registry.data.get(cfg.get(part, {}).get("type"), object)
        for path in unread_keys(cls):
            if part == "env" and path in ENV_KEYS:
                continue  # a key of every environment, for which the class has another default
            yield f"{part}.{path} has no effect: {cls.__name__} declares it, but no code reads it."


def _fill_in(schema: sc.Schema, values: Mapping[str, Any]) -> EasyDict:
    """Return all keys of a schema, with the user's values and, for all other keys, the defaults."""
    cfg: dict[str, Any] = {}
    for path, key in schema.items():
        # an empty type of the buffer: policy.priority has chosen the default in the schema
        given = path in values and (values[path] or path != sc.BUFFER + ".type")
        if key.type is SECTION:
            set_key(cfg, path, get_key(cfg, path, {}))
        elif given or key.default not in (sc.UNSET, sc.REQUIRED):
            set_key(cfg, path, copy.deepcopy(values[path] if given else key.default))
    cfg["exp_name"] = os.path.expanduser(cfg["exp_name"])  # shells leave `exp_name=~/runs` as it is
    return ConfigDict(cfg)


def _checked_items(
    node: dict[str, Any], prefix: str, schema: sc.Schema, texts: Mapping[str, str]
) -> Iterator[tuple[str, Any]]:
    """Check the keys that the user set, and yield each dotted key with its value."""
    for key, value in node.items():
        path = prefix + key
        declared = schema.get(path)
        if declared is not None and declared.type is not SECTION:
            if path in texts and not matches(value, declared.hint) and matches(texts[path], declared.hint):
                value = texts[path]  # exp_name=007 is a string, not a number
            if is_schedule(path, declared, value):
                check_schedule(path, declared, value)
            else:
                declared.check(path, value)
            yield path, value
        elif path in schema or any(known.startswith(path + ".") for known in schema):
            if not isinstance(value, dict):
                raise ConfigError(f"{path}: expected a dict of options, got {show(value)}.")
            yield from _checked_items(value, path + ".", schema, texts)
        else:
            raise ConfigError(f"Unknown key '{path}'.{sc.closest_path(path, schema)}")


def save_config(cfg: EasyDict, path: str | Path, pipeline: str = "", **limits: int) -> None:
    """Write a compiled config as a Python file. It compiles to the same config and can be run from any directory.

    Args:
        cfg: the config that `compile_config` returned.
        path: the file to write, in a directory that is created if needed; an existing file is replaced.
        pipeline: name of the function in `ding_lite.entry` that runs the file; empty: the policy's own.
        **limits: limits of the run, such as `max_env_step`, which `read_saved_run` returns.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(format_config(cfg, pipeline, **limits), encoding="utf-8")


def format_config(cfg: EasyDict, pipeline: str = "", **limits: int) -> str:
    """Return a compiled config as the text of a Python file; the arguments are those of `save_config`."""
    main = sc.plain({key: value for key, value in cfg.items() if key != "notes"}, "cfg")
    pipeline = pipeline or sc.PIPELINE_OF[sc.find_class("policy", cfg).learns_from]
    create = {part: {key: main[part].pop(key) for key in ("type", "import_names")} for part in sc.PARTS if part in main}
    create["env_manager"] = {"type": main["env"]["manager"].pop("type")}
    sizes = "of all processes together" if cfg.policy.get("divide") else "per process: run it on as many as wrote it"
    return f'''"""Compiled by ding_lite. The sizes in this file are {sizes}."""

import sys
from math import inf, nan  # noqa: F401  (as values below)

main_config = {pprint.pformat(main, width=120, sort_dicts=False)}
create_config = {pprint.pformat(create, width=120, sort_dicts=False)}
limits = {limits}
pipeline = {pipeline!r}
import_dirs = {_import_dirs(cfg)}  # folders of the modules in import_names
sys.path += [folder for folder in import_dirs if folder not in sys.path]

if __name__ == "__main__":
    from ding_lite.entry import {pipeline}
    from ding_lite.utils import DDPContext

    with DDPContext():
        {pipeline}((main_config, create_config), **limits)
'''


def _import_dirs(cfg: EasyDict) -> list[str]:
    """Return the directories that contain the imported packages and modules of `import_names`."""
    names = (name for part in sc.PARTS if part in cfg for name in cfg[part].import_names)
    tops = dict.fromkeys(name.partition(".")[0] for name in names)
    places = [
        next(iter(module.__path__), "") if hasattr(module, "__path__") else module.__file__ or ""
        for module in (sys.modules[top] for top in tops)
    ]
    return list(dict.fromkeys(str(Path(place).resolve().parent) for place in places if place))

"""Reads, compiles, checks and saves configs.

Two dicts describe a run. `main_config` contains the values that a user tunes. `create_config` names the classes of the
environment, its manager, the policy and the buffer. Compiling merges four sources into one config; each overrides those
before it: the defaults of the classes, `create_config`, `main_config`, and the overrides of the command line.

The keys that the classes declare form the schema (`schema.py`). Every key that a user sets must be declared, and its
value must have the declared type and range. A misspelt key is therefore an error, which names the closest known key.
All checks are done before an environment worker starts. The user's dicts are never modified.
"""

from __future__ import annotations

import ast
import copy
import difflib
import os
import pprint
import sys
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding_lite.config import schema as sc
from ding_lite.config.checks import check_policy, check_schedule, check_values, round_counts
from ding_lite.config.compat import (
    IGNORED_KEYS,
    PLACES,
    SYNONYMS,
    choose_variant,
    create_from,
    import_module,
    rename_keys,
    take_loop_keys,
    translate_create,
    translate_d4rl,
)
from ding_lite.config.saved import append_to_path
from ding_lite.config.shapes import check_action_space
from ding_lite.config.unread import unread_keys
from ding_lite.envs.keys import ENV_KEYS
from ding_lite.utils.key import SECTION, ConfigDict, get_key, has_fields, is_schedule, matches, set_key, show
from ding_lite.utils.registry import (
    CONFIG_MODULE,
    ENV_REGISTRY,
    POLICY_REGISTRY,
    REWARD_MODEL_REGISTRY,
    ConfigError,
    closest,
    place_of,
)

# The dicts of a config file, in short, for messages.
LEAST = {
    "main_config": " Add main_config = dict(exp_name='my_run').",
    "create_config": " Add create_config = dict(policy=dict(type='ppo')).",
}
PARTS = ("env", "policy", "reward_model")  # sections for which create_config names a class and modules to import
LIMITS = {"max_env_step", "max_train_iter"}  # words beside the keys of a config
LONGEST_KEY = 200  # characters; searching for a similar key would take seconds for longer ones


def read_file(path: str | Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """Run a Python file once, not as `__main__`, and return its `main_config`, its `create_config` and its `limits`.

    `limits` are the limits of a run, such as `max_env_step`; a file need not define them. The file's directory is added
    to `sys.path`, as Python does for a script, and the current directory after all others. The file, and
    `import_names`, can therefore import modules from both.

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


def _get_dict(module: types.ModuleType, name: str) -> dict[str, Any]:
    value = getattr(module, name, None)
    if not isinstance(value, dict):
        others = [key for key, value in vars(module).items() if isinstance(value, dict) and key not in LEAST]
        hint = closest(name, others) or LEAST.get(name, "")
        raise ConfigError(f"Config file '{module.__file__}', line 1: expected a dict called '{name}', got none.{hint}")
    return value


def _run_file(path: Path) -> types.ModuleType:
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise ConfigError(f"Config file '{path}' {what}: give the path of a Python file.")
    append_to_path([os.getcwd()])
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # The module is removed from sys.modules afterwards. Environment workers cannot import it, so its classes must be
    # pickled by value. The file is not imported, because after two edits in a second Python
    # would reuse an outdated .pyc.
    module = sys.modules[CONFIG_MODULE + path.stem] = types.ModuleType(CONFIG_MODULE + path.stem)
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
    policy_type = get_key(_merge_user(read_pair(input_cfg), overrides)[0], "policy.type")
    if not isinstance(policy_type, str):
        raise ConfigError(
            f"create_config.policy.type: expected a registered name such as policy=dict(type=...), got "
            f"{show(policy_type)}."
        )
    return POLICY_REGISTRY.find(policy_type)


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
    create_cfg = create_cfg or create_from(classes)
    if not (auto or classes):
        raise ConfigError(
            "compile_config(auto=False): give create_config, which names the classes, and leave auto out."
        )
    pair: Any = input_cfg if create_cfg is None else (input_cfg, create_cfg)
    user, texts, notes = _merge_user(read_pair(pair), overrides)
    if seed is not None:
        user["seed"] = seed
    known = sc.config_schema(user, model_given)
    check_action_space(user)
    rename_keys(user, known, notes)
    schema = sc.config_schema(user, model_given)
    take_loop_keys(user, schema)
    values = dict(_checked_items(user, "", schema, texts, notes))
    cfg = _fill_in(schema, values)
    policy_cls = POLICY_REGISTRY.find(cfg.policy.type)
    round_counts(cfg, policy_cls, notes)
    check_values(cfg, policy_cls)
    check_policy(cfg, policy_cls)
    sc.drop_unused(cfg, schema, values, notes)
    notes += _unread_notes(cfg)
    cfg.notes = notes
    if save_cfg:
        save_config(cfg, os.path.join(cfg.exp_name, save_path))
    return cfg


def _unread_notes(cfg: EasyDict) -> Iterator[str]:
    for part, registry in zip(PARTS, (ENV_REGISTRY, POLICY_REGISTRY, REWARD_MODEL_REGISTRY), strict=True):
        cls: type = registry.imported().get(cfg.get(part, {}).get("type"), object)
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


def _merge_user(
    pair: tuple[dict[str, Any], dict[str, Any]], overrides: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Merge the user's dicts and overrides, and import the modules that they name.

    Returns:
        The nested keys; the unparsed values of the overrides by dotted key; notes on keys that were translated.
    """
    notes: list[str] = []
    user = sc.merge(translate_create(sc.plain(pair[1], "create_config"), notes), sc.plain(pair[0], "main_config"))
    texts = _apply_overrides(user, overrides)
    translate_d4rl(user, notes)
    choose_variant(user, notes)
    if get_key(user, "policy.divide") is True and get_key(user, "policy.multi_gpu") is None:
        set_key(user, "policy.multi_gpu", True)
    env_id, names = get_key(user, "env.env_id"), get_key(user, "env.import_names", [])
    if isinstance(env_id, str) and ":" in env_id and isinstance(names, list):  # gymnasium's 'module:Id-v0'
        module, _, name = env_id.partition(":")
        set_key(user, "env.env_id", name)
        set_key(user, "env.import_names", [*names, module])
    _import_modules(user)
    return user, texts, notes


def _apply_overrides(user: dict[str, Any], overrides: Sequence[str]) -> dict[str, str]:
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
        set_key(user, path, sc.plain(value, path))
        texts[path] = text
    return texts


def _import_modules(user: dict[str, Any]) -> None:
    """Import the modules of `import_names`, which register classes; the current directory may contain them."""
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
                    f"create_config.{path}: '{name}' fails: {place_of(error)}{sc.show_error(error)}."
                ) from error


def _checked_items(
    node: dict[str, Any], prefix: str, schema: sc.Schema, texts: Mapping[str, str], notes: list[str]
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
            yield from _checked_items(value, path + ".", schema, texts, notes)
        elif path in IGNORED_KEYS:
            accepted, reason = IGNORED_KEYS[path]
            choices = accepted if isinstance(accepted, tuple) else (accepted,)
            if Any not in choices and value not in choices:
                possible = " or ".join(map(repr, choices))
                raise ConfigError(f"{path}: expected {possible} ({reason}), got {show(value)}: leave it out.")
            notes.append(f"{path} is ignored: {reason}.")
        else:
            raise ConfigError(f"Unknown key '{path}'.{_closest_path(path, schema)}")


def _closest_path(path: str, schema: sc.Schema) -> str:
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
    pipeline = pipeline or sc.PIPELINE_OF[POLICY_REGISTRY.find(cfg.policy.type).learns_from]
    create = {part: {key: main[part].pop(key) for key in ("type", "import_names")} for part in PARTS if part in main}
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
    names = (name for part in PARTS if part in cfg for name in cfg[part].import_names)
    tops = dict.fromkeys(name.partition(".")[0] for name in names)
    places = [
        next(iter(module.__path__), "") if hasattr(module, "__path__") else module.__file__ or ""
        for module in (sys.modules[top] for top in tops)
    ]
    return list(dict.fromkeys(str(Path(place).resolve().parent) for place in places if place))

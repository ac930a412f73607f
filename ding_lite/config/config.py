"""Read, compile, check and save configs.

A run is described by two dicts: `main_config` (what the user tunes) and `create_config` (which environment, manager,
policy and buffer to build). Compiling merges, low to high: class defaults, `create_config`, `main_config`, command-line
overrides. The classes' declarations are the schema (`schema.py`): every key that a user writes must be declared by one
of them, and its value must have the declared type and range, so a misspelt key stops the run with the closest known
name instead of being ignored. All of this happens before an environment worker starts, and nothing that the user passed
in is modified.
"""

from __future__ import annotations

import ast
import copy
import difflib
import importlib
import pprint
import sys
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
from easydict import EasyDict

from ding_lite.config import schema as sc
from ding_lite.config.checks import check_memory, check_values
from ding_lite.config.compat import IGNORED_KEYS, import_module, rename_keys, take_loop_keys, translate_create
from ding_lite.envs.vector_env import EnvSpec
from ding_lite.utils.dist.shares import SHARED_SIZES, divide
from ding_lite.utils.key import SECTION, describe, matches, show
from ding_lite.utils.registry import CONFIG_MODULE, POLICY_REGISTRY, ConfigError, closest, place_of

# Modules that fill the registries; imported when a config is compiled, like its import_names.
BUILTIN = ("ding_lite.model", "ding_lite.policy", "ding_lite.worker")
PARTS = ("env", "policy", "reward_model")  # sections whose class create_config names, with modules to import
LONGEST_KEY = 200  # characters; a longer one is not a misspelling, and comparing it would take seconds


class SavedRun(NamedTuple):
    """The content of a run's total_config.py."""

    main_config: dict[str, Any]
    create_config: dict[str, Any]
    limits: dict[str, int]
    pipeline: str


def read_config(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the python file at `path` (not as `__main__`) and return its `main_config` and `create_config`.

    The file's directory is added to `sys.path`, as if Python ran the file, so that the file and `import_names` can
    import modules from there.

    Raises:
        ConfigError: no such file, it fails (the message has file and line), or it lacks one of the two names.
    """
    module = _run_file(Path(path))
    return _get_dict(module, "main_config"), _get_dict(module, "create_config")


def read_saved_run(path: str | Path) -> SavedRun:
    """Read a file that `save_config` wrote.

    Raises:
        ConfigError: as `read_config`, or the file does not name its limits and its pipeline.
    """
    module = _run_file(Path(path))
    pipeline = getattr(module, "pipeline", None)
    if not isinstance(pipeline, str):
        raise ConfigError(f"'{path}' names no pipeline: it was altered. Run it with -c, as a new run.")
    main_config, create_config, limits = (_get_dict(module, key) for key in ("main_config", "create_config", "limits"))
    return SavedRun(main_config, create_config, limits, pipeline)


def _get_dict(module: types.ModuleType, name: str) -> dict[str, Any]:
    value = getattr(module, name, None)
    if not isinstance(value, dict):
        hint = closest(name, [key for key, value in vars(module).items() if isinstance(value, dict)])
        raise ConfigError(
            f"Config file '{module.__file__}', line 1: expected a dict called '{name}', found none.{hint}"
        )
    return value


def _run_file(path: Path) -> types.ModuleType:
    if not path.is_file():
        raise ConfigError(f"Config file '{path}' does not exist: give the path of a python file.")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # A module of its own, not left in sys.modules: environment workers, which cannot import it, then get its classes by
    # value. No import: a cached .pyc could be older than a file edited twice within a second.
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


def find_policy(
    input_cfg: str | Path | Sequence[dict[str, Any]], overrides: Sequence[str] = ()
) -> tuple[tuple[dict[str, Any], dict[str, Any]], Any]:
    """Read a config up to its policy's class.

    Returns:
        `(main_config, create_config)`, so that a file is run once, and the class.

    Raises:
        ConfigError: the config cannot be read, or no policy of its type is registered.
    """
    pair = _read_pair(input_cfg)
    user, _, _ = _merge_user(pair, overrides)
    policy_type = sc.get_key(user, "policy.type")
    if not isinstance(policy_type, str):
        raise ConfigError(
            f"create_config.policy.type: expected a registered name such as policy=dict(type=...), got "
            f"{show(policy_type)}."
        )
    return pair, POLICY_REGISTRY.find(policy_type)


def divided_sizes(
    input_cfg: str | Path | Sequence[dict[str, Any]], world_size: int, overrides: Sequence[str] = ()
) -> list[str]:
    """Return overrides that give each of `world_size` processes its share of batch size, n_sample and n_episode.

    The values of the compiled single-process config are divided, whether the user or a class sets them.

    Raises:
        ConfigError: one of them is not a multiple of the world size, or the config is wrong.
    """
    user, _, _ = _merge_user(_read_pair(input_cfg), overrides)
    schema = sc.config_schema(user, model_given=True)
    paths = [path for path in SHARED_SIZES if path in schema]
    values = {path: sc.get_key(user, path, schema[path].default) for path in paths}
    return [f"{path}={divide(path, value, world_size)}" for path, value in values.items() if matches(value, int)]


def compile_config(
    input_cfg: str | Path | Sequence[dict[str, Any]],
    seed: int | None = None,
    model_given: bool = False,
    overrides: Sequence[str] = (),
) -> EasyDict:
    """Merge a config pair with the class defaults, check every key, and return the whole config.

    Args:
        input_cfg: `(main_config, create_config)`, or the path of a python file that defines both.
        seed: used instead of the config's own seed.
        model_given: the user passes a model object, so `policy.model` may hold anything.
        overrides: `dotted.key=value` strings, stronger than everything else.

    Returns:
        The config, with `notes`: a list of sentences about keys that were moved or have no meaning here.

    Raises:
        ConfigError: an unknown key, type or value; the message says which, what was expected and what to do.
    """
    user, texts, notes = _merge_user(_read_pair(input_cfg), overrides)
    if seed is not None:
        user["seed"] = seed
    rename_keys(user, sc.config_schema(user, model_given), notes)
    schema = sc.config_schema(user, model_given)
    take_loop_keys(user, schema)
    values = dict(_checked_items(user, "", schema, texts, notes))
    if not values.get(sc.BUFFER + ".type"):
        values.pop(sc.BUFFER + ".type", None)  # empty: the schema's default is what policy.priority asks for
    nested: dict[str, Any] = {}
    for path, key in schema.items():
        if key.type is SECTION:
            sc.set_key(nested, path, sc.get_key(nested, path, {}))
        elif path in values or key.default not in (sc.UNSET, sc.REQUIRED):
            sc.set_key(nested, path, copy.deepcopy(values.get(path, key.default)))
    cfg = EasyDict(nested)
    check_values(cfg)
    policy_cls: Any = POLICY_REGISTRY.find(cfg.policy.type)
    policy_cls.check_config(cfg)
    cfg.notes = notes
    return cfg


def _read_pair(input_cfg: str | Path | Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    pair = read_config(input_cfg) if isinstance(input_cfg, (str, Path)) else input_cfg
    if not isinstance(pair, Sequence) or len(pair) != 2 or not all(isinstance(part, dict) for part in pair):
        raise ConfigError(f"Expected (main_config, create_config) or the path of a config file, got {show(pair)}.")
    return pair[0], pair[1]


def _merge_user(
    pair: tuple[dict[str, Any], dict[str, Any]], overrides: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Merge the user's dicts and overrides, and import the modules that they name.

    Returns:
        The nested keys, the texts of the overrides' values by dotted key, and notes on translated keys.
    """
    notes: list[str] = []
    user = sc.merge(translate_create(sc.plain(pair[1], "create_config"), notes), sc.plain(pair[0], "main_config"))
    texts = _apply_overrides(user, overrides)
    _import_modules(user)
    return user, texts, notes


def _apply_overrides(user: dict[str, Any], overrides: Sequence[str]) -> dict[str, str]:
    """Write `key=value` strings into `user`; return the text of each value, for keys of type str."""
    texts = {}
    for item in overrides:
        path, sep, text = item.partition("=")
        if not sep or not path:
            raise ConfigError(f"Override '{item}': expected dotted.key=value, such as policy.learn.batch_size=16.")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        sc.set_key(user, path, sc.plain(value, path))
        texts[path] = text
    return texts


def _import_modules(user: dict[str, Any]) -> None:
    """Import the modules that register classes: the built-in packages and the config's `import_names`."""
    for name in BUILTIN:
        importlib.import_module(name)
    for path in (f"{part}.import_names" for part in PARTS):
        names = sc.get_key(user, path, [])
        if not matches(names, list[str]):
            raise ConfigError(f"create_config.{path}: expected a list of module names, got {show(names)}.")
        for name in names:
            try:
                import_module(name)
            except ImportError as error:
                raise ConfigError(f"create_config.{path}: cannot import '{name}': {error}. Is it installed?") from error
            except (Exception, SystemExit) as error:
                raise ConfigError(
                    f"create_config.{path}: '{name}' fails: {place_of(error)}{sc.show_error(error)}."
                ) from error


def _checked_items(
    node: dict[str, Any], prefix: str, schema: sc.Schema, texts: Mapping[str, str], notes: list[str]
) -> Iterator[tuple[str, Any]]:
    """Yield dotted key and value of everything that the user set; raise `ConfigError` for unknown keys."""
    for key, value in node.items():
        path = prefix + key
        declared = schema.get(path)
        if declared is not None and declared.type is not SECTION:
            if path in texts and not matches(value, declared.hint) and matches(texts[path], declared.hint):
                value = texts[path]  # exp_name=007 is a text
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
                raise ConfigError(f"{path}: only {possible} is possible here ({reason}), got {show(value)}.")
            notes.append(f"{path} is ignored: {reason}.")
        else:
            raise ConfigError(f"Unknown key '{path}'.{_closest_path(path, schema)}")


def _closest_path(path: str, schema: sc.Schema) -> str:
    """Return a hint with the known key, at any level, most like `path`; else the known keys of its level."""
    known = {".".join(parts[:i]) for parts in (p.split(".") for p in schema) for i in range(1, len(parts) + 1)}
    parent, _, name = path.rpartition(".")

    def likeness(other: str) -> float:
        same_name = difflib.SequenceMatcher(None, other.rpartition(".")[2], name).ratio()
        return same_name + 0.3 * difflib.SequenceMatcher(None, other, path).ratio() if same_name > 0.6 else 0.0

    best = max(sorted(known), key=likeness) if len(path) <= LONGEST_KEY else ""
    if best and likeness(best):
        return f" Did you mean '{best}'?"
    siblings = sorted(other.rpartition(".")[2] for other in known if other.rpartition(".")[0] == parent)
    return f" Known in '{parent or 'main_config'}': {', '.join(siblings)}."


def check_shapes(cfg: EasyDict, env_spec: EnvSpec, model_given: bool = False) -> None:
    """Compare the model's shapes in `cfg` with the environment's spaces, and write those that are unset into `cfg`.

    Raises:
        ConfigError: they differ, a shape cannot be known, the policy does not take this kind of action, or this machine
            cannot hold as many steps as are asked for.
    """
    policy_cls, model, space = POLICY_REGISTRY.find(cfg.policy.type), cfg.policy.model, env_spec.action_space
    kinds = getattr(policy_cls, "action_spaces", (gymnasium.Space,))
    if not isinstance(space, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigError(f"Policy '{cfg.policy.type}' takes {names} actions, the environment has {space}.")
    kind = _kind_of(space)
    if kind is None:
        raise ConfigError(
            f"The environment's actions are {space}: expected Discrete, a Box of one dimension, or a Dict of both with "
            "the keys 'action_type' and 'action_args'."
        )
    stack = cfg.env.frame_stack
    if stack > 1 and env_spec.frame_stack != stack:
        raise ConfigError(f"env.frame_stack={stack}, but the environment stacks {env_spec.frame_stack} frames.")
    options = {} if model_given else sc.model_options(policy_cls, model.get("type"), {})
    shapes = {"obs_shape": _shape_of(env_spec.observation_space), "action_shape": _shape_of(space)}
    if model.get("action_space") in (None, "discrete", "continuous", "hybrid"):  # else a word of the model's own
        shapes["action_space"] = kind
    for key, shape in shapes.items():
        given = model.get(key)
        given = given[0] if isinstance(given, list) and len(given) == 1 else given
        if given is None and shape and f"policy.model.{key}" in options:
            model[key] = shape
        elif given is not None and shape and given != shape:
            raise ConfigError(
                f"policy.model.{key} is {given}, but the environment has {shape} (env.frame_stack={stack}). Leave it "
                "out to take the environment's."
            )
    for path, option in options.items():
        if option.default is sc.REQUIRED and sc.get_key(cfg, path) is None:
            if path == "policy.model.obs_shape" and isinstance(env_spec.observation_space, gymnasium.spaces.Dict):
                raise ConfigError(
                    f"The environment's observations are a Dict of {', '.join(env_spec.observation_space)}, but the "
                    f"model of policy '{cfg.policy.type}' takes one array: wrap the environment in gymnasium.wrappers."
                    "FlattenObservation, or set policy.model.type to a model of your own that takes the dict."
                )
            expected = describe(option.hint)
            raise ConfigError(f"{path} is not set, and does not follow from the environment: expected {expected}.")
    check_memory(cfg, env_spec.observation_space)


def _kind_of(space: gymnasium.Space[Any]) -> str | None:
    """Return the right `policy.model.action_space`; empty for kinds that no built-in model has a name for."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return "discrete"
    if isinstance(space, gymnasium.spaces.Box):
        return "continuous" if len(space.shape) == 1 else None
    if isinstance(space, gymnasium.spaces.Dict):
        kinds = {key: type(part) for key, part in space.items()}
        hybrid = {"action_type": gymnasium.spaces.Discrete, "action_args": gymnasium.spaces.Box}
        return "hybrid" if kinds == hybrid and len(space["action_args"].shape or ()) == 1 else None
    return ""


def _shape_of(space: gymnasium.Space[Any]) -> Any:
    """Return the right `obs_shape` or `action_shape`; None if the space does not have a single shape."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(space.n)
    if isinstance(space, gymnasium.spaces.Dict) and set(space) == {"action_type", "action_args"}:
        return {f"{key}_shape": _shape_of(part) for key, part in space.items()}
    shape = space.nvec.tolist() if isinstance(space, gymnasium.spaces.MultiDiscrete) else [*(space.shape or ())]
    return (int(shape[0]) if len(shape) == 1 else [int(n) for n in shape]) or None


def save_config(cfg: EasyDict, path: str | Path, pipeline: str = "", **limits: int) -> None:
    """Write a compiled config as a python file that compiles to the same config and runs again, from any directory.

    Args:
        cfg: what `compile_config` returned.
        path: the file; an existing one is replaced.
        pipeline: the function in `ding_lite.entry` that runs it again; empty: the one for its kind of policy.
        limits: of the run, such as `max_env_step`; `read_saved_run` returns them.
    """
    main = sc.plain({key: value for key, value in cfg.items() if key != "notes"}, "cfg")
    pipeline = pipeline or POLICY_REGISTRY.find(cfg.policy.type).pipeline
    create = {part: {key: main[part].pop(key) for key in ("type", "import_names")} for part in PARTS if part in main}
    create["env_manager"] = {"type": main["env"]["manager"].pop("type")}
    Path(path).write_text(
        f'''"""Compiled by ding_lite. Sizes are per process: run this file on as many processes as wrote it."""

import sys
from math import inf, nan  # noqa: F401  (as values below)

main_config = {pprint.pformat(main, width=120, sort_dicts=False)}
create_config = {pprint.pformat(create, width=120, sort_dicts=False)}
limits = {limits}
pipeline = {pipeline!r}
import_dirs = {_import_dirs(cfg)}  # where the modules of import_names are
sys.path += [folder for folder in import_dirs if folder not in sys.path]

if __name__ == "__main__":
    from ding_lite.entry import {pipeline}
    from ding_lite.utils import DDPContext

    with DDPContext():
        {pipeline}((main_config, create_config), **limits)
''',
        encoding="utf-8",
    )


def _import_dirs(cfg: EasyDict) -> list[str]:
    """Return the directories that hold the imported packages and modules of `import_names`."""
    names = (name for part in PARTS if part in cfg for name in cfg[part].import_names)
    tops = dict.fromkeys(name.partition(".")[0] for name in names)
    places = [
        next(iter(module.__path__), "") if hasattr(module, "__path__") else module.__file__ or ""
        for module in (sys.modules[top] for top in tops)
    ]
    return list(dict.fromkeys(str(Path(place).resolve().parent) for place in places if place))

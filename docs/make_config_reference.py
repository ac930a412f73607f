"""Write docs/config.md, the list of all config keys, from the declarations in the classes.

    python docs/make_config_reference.py [--check]

Each key is a `Key(default, "meaning", ...)`; one without meaning or type is an error. `--check` writes nothing, and
fails if docs/config.md is not what the classes say.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from ding_lite.config import schema
from ding_lite.di_engine.keys import IGNORED_KEYS, RENAMED_KEYS
from ding_lite.envs.keys import ENV_KEYS
from ding_lite.policy import Policy
from ding_lite.reward_model import RewardModel
from ding_lite.utils.key import SECTION, Key, declared_keys, describe, group_keys, merge_keys, set_key
from ding_lite.utils.registry import (
    BUFFER_REGISTRY,
    ENCODER_REGISTRY,
    ENV_REGISTRY,
    LEARNING_PARTS,
    MODEL_REGISTRY,
    POLICY_REGISTRY,
)
from ding_lite.world_model import WorldModel

PAGE = Path(__file__).with_name("config.md")
INTRO = """# Configuration reference

Written by `make docs` from the declarations in the classes: edit those, not this page.

A run is a pair of dicts, `main_config` and `create_config`. Low to high: the defaults below, `create_config`,
`main_config`, `key=value` on the command line. A key that is not below is an error, and so is a value of another type
or out of range. A table lists what its class declares or changes. A policy that extends another one, as `rainbow`
extends `dqn`, has the keys of that one too.

A float of `policy` may change during a run, see [schedules](schedules.md), unless its type is marked `constant`, or it
is in `policy.model`, `policy.other` or `policy.ddp`.
"""
CREATE = """
## `create_config`

What to build; each part is a dict with a `type`.

| key | meaning |
|---|---|
| `env.type` | registered environment; left out, any gymnasium id by `env.env_id` |
| `env.import_names` | modules that register it |
| `env_manager.type` | `base`, `subprocess`, `native`, `env_pool` or `batched`, see `env.manager.type` |
| `policy.type` | registered policy |
| `policy.import_names` | modules that register the policy or its model |
| `reward_model.type` | registered reward model; left out, rewards are learned from as they are |
| `reward_model.import_names` | modules that register it |
| `world_model.type` | registered world model, for `serial_pipeline_dyna` and `_dream` |
| `world_model.import_names` | modules that register it |
| `replay_buffer.type` | registered replay buffer; left out, the one that `policy.priority` asks for |
"""
# Environments that are listed too.
MODULES = (
    "dizoo.atari.envs.atari_env",
    "dizoo.classic_control.cartpole.envs.cartpole_env",
)


class Entry(NamedTuple):
    """One documented key."""

    key: str
    type: str
    default: str
    meaning: str


def class_entries(cls: type, base: Mapping[str, Any] = {}) -> list[Entry]:
    """Return the keys that a class itself declares or changes; `base` holds declarations that it extends.

    Raises:
        ValueError: a key has no meaning, or nothing tells its type; the message names class and key.
    """
    keys = declared_keys(cls, base)
    return [_entry(cls.__name__, path, keys[path]) for path in _own_paths(cls) if path in keys]


def policy_entries(cls: type[Policy]) -> list[Entry]:
    """Return the keys that a policy declares or changes, and those of its bases that no other table lists."""
    listed = {Policy, *POLICY_REGISTRY.values()} - {cls}
    owners = [base for base in reversed(cls.__mro__) if base not in listed]
    paths = dict.fromkeys(path for owner in owners for path in _own_paths(owner))
    keys = declared_keys(cls, {})
    return [_entry(cls.__name__, path, keys[path]) for path in paths if path in keys]


def key_entries(name: str, tree: Mapping[str, Any]) -> list[Entry]:
    """Return the keys of declarations that belong to no class, called `name`; raises as `class_entries`."""
    return class_entries(type(name, (), {"config": dict(tree)}))


def _own_paths(cls: type) -> Iterator[str]:
    """Yield the dotted names of the keys that a class itself declares or changes, and those of groups that are new."""
    tree, before = merge_keys(vars(cls).get("config", {})), group_keys(type("Bases", cls.__bases__, {}))
    for path, key in group_keys(cls).items():
        if key != before.get(path):
            set_key(tree, path, key)
    yield from _paths(tree, "")


def _paths(tree: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _paths(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def _entry(owner: str, path: str, key: Key) -> Entry:
    if not key.meaning:
        raise ValueError(f"{owner}.config: '{path}' has no meaning: declare it as Key(default, \"meaning\").")
    if key.hint in (Any, SECTION):
        raise ValueError(f"{owner}.config: '{path}' is None by default: give its Key a type, such as type=int.")
    limits = key.range_text()
    kind = " or ".join(map(repr, key.choices)) or describe(key.hint) + (f", {limits}" if limits else "")
    meaning = key.meaning + (f"; only with `{key.needs}`" if key.needs else "")
    return Entry(path, kind + (", constant" if key.constant else ""), repr(key.default), meaning)


def model_entries(cls: type) -> list[Entry]:
    """Return a model's parameters, with the meanings in the `Args:` of the class that has its `__init__`.

    Raises:
        ValueError: a parameter is not described there.
    """
    owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
    meanings: dict[str, str] = {}  # the constructor's docstring has those of the arguments that it passes on
    for text in (inspect.getdoc(owner) or "", vars(owner)["__init__"].__doc__ or ""):
        for m in re.finditer(r"^    (\w+): (.+?)(?=^    \**\w+: |\n\n|\Z)", text, re.M | re.S):
            meanings.setdefault(m[1], " ".join(m[2].split()))
    entries, hints = [], get_type_hints(vars(owner)["__init__"])
    for param in inspect.signature(cls).parameters.values():
        if param.name not in meanings:
            raise ValueError(f"{cls.__module__}.{cls.__name__}: the docstring's Args do not describe '{param.name}'.")
        default = "" if param.default is param.empty else repr(param.default)
        entries.append(Entry(param.name, describe(hints[param.name]), default, meanings[param.name].rstrip(".")))
    return entries


def _table(title: str, entries: list[Entry], prefix: str) -> str:
    rows = []
    for entry in entries:
        kind, default, meaning = (text.replace("|", "\\|") for text in entry[1:])
        rows.append(f"| `{prefix}{entry.key}` | {kind} | {f'`{default}`' if default else 'required'} | {meaning} |\n")
    head = "| key | type and range | default | meaning |\n|---|---|---|---|\n"
    return f"\n## {title}\n\n{head}{''.join(rows)}" if rows else ""


def make_page() -> str:
    """Return the text of docs/config.md."""
    for module in MODULES:
        importlib.import_module(module)

    def own(registry: Mapping[str, type]) -> list[tuple[str, type]]:
        """Leave out what is registered by others, such as tests in the same process."""
        return sorted((n, c) for n, c in registry.items() if c.__module__.startswith(("ding_lite.", *MODULES)))

    page = INTRO + CREATE
    page += _table("Top level", key_entries("schema", schema.TOP_KEYS), "")
    page += _table("`env`", key_entries("env", ENV_KEYS), "env.")
    for name, cls in own(ENV_REGISTRY):
        page += _table(f"`env` of type `{name}`", class_entries(cls, ENV_KEYS), "env.")
    page += _table("`policy`, whatever its type", class_entries(Policy), "policy.")
    for name, cls in own(POLICY_REGISTRY):
        page += _table(f"`policy` of type `{name}`", policy_entries(cls), "policy.")
    for name, cls in own(MODEL_REGISTRY):
        page += _table(f"`policy.model` of type `{name}`", model_entries(cls), "policy.model.")
    for name, cls in own(ENCODER_REGISTRY):  # the model passes the first two arguments and the activation itself
        options = [entry for entry in model_entries(cls)[2:] if entry.key != "activation"]
        page += _table(f"`policy.model.encoder` of type `{name}`", options, f"{schema.ENCODER}.")
    for name, cls in own(BUFFER_REGISTRY):
        page += _table(f"Replay buffer of type `{name}`", class_entries(cls), f"{schema.BUFFER}.")
    for part, base in (("reward_model", RewardModel), ("world_model", WorldModel)):
        page += _table(f"`{part}`, whatever its type", class_entries(base), f"{part}.")
        for name, cls in own(LEARNING_PARTS[part]):
            owners = cls.__mro__[: cls.__mro__.index(base)]
            entries = {entry.key: entry for owner in reversed(owners) for entry in class_entries(owner)}
            page += _table(f"`{part}` of type `{name}`", list(entries.values()), f"{part}.")
    page += "\n## Keys of DI-engine\n\nMoved to another name, with a note:\n\n| key | here |\n|---|---|\n"
    page += "".join(f"| `{old}` | `{new}` |\n" for old, new in RENAMED_KEYS.items())
    page += "\nAccepted with a note, and without effect:\n\n| key | only as | because |\n|---|---|---|\n"
    for key, (accepted, why) in IGNORED_KEYS.items():
        page += (
            f"| `{key}` | {f'`{accepted!r}`' if isinstance(accepted, bool | int | None) else 'anything'} | {why} |\n"
        )
    return page


def main() -> None:
    """Write or check the page; a mistake in a source ends with one line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if docs/config.md is out of date")
    arguments = parser.parse_args()
    try:
        page = make_page()
    except ValueError as error:
        sys.exit(str(error))
    if not arguments.check:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
        sys.exit("docs/config.md is out of date: run `make docs`.")


if __name__ == "__main__":
    main()

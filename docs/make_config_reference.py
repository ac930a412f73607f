"""Write docs/config.md, the list of all config keys, from the classes' defaults and the comments beside them.

    python docs/make_config_reference.py [--check]

Each line of a `config` ends with `# (type) meaning`; a line without is an error, and so is a default of another type.
`--check` writes nothing and fails if docs/config.md is not what the sources say.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).with_name("config.md")
INTRO = """# Configuration reference

Written by `make docs` from the classes' defaults: edit those, not this page.

A run is a pair of dicts, `main_config` and `create_config`. Low to high: the defaults below, `create_config`,
`main_config`, `key=value` on the command line. A key that is not below is an error, and so is a value of another type.
"""
CREATE = """
## `create_config`

What to build; each part is a dict with a `type`.

| key | meaning |
|---|---|
| `env.type` | registered environment; left out, any gymnasium id by `env.env_id` |
| `env.import_names` | modules that register it |
| `env_manager.type` | `base`, `subprocess` or `native`, see `env.manager.type` |
| `policy.type` | registered policy |
| `policy.import_names` | modules that register the policy or its model |
| `replay_buffer.type` | registered replay buffer; left out, the one that `policy.priority` asks for |
"""
# Modules whose classes register themselves, beside those of the package.
MODULES = (
    "ding_lite.model",
    "ding_lite.policy",
    "ding_lite.worker",
    "dizoo.atari.envs.atari_env",
    "dizoo.classic_control.cartpole.envs.cartpole_env",
)


class Entry(NamedTuple):
    """One documented key."""

    key: str
    type: str
    default: str
    meaning: str


def parse_defaults(source: str, name: str, cls: str | None = None, file: str = "") -> list[Entry]:
    """Return the documented keys of the dict assigned to `name`, in a class or in the module.

    Raises:
        ValueError: a key has no comment `# (type) meaning`, or its default is of another type; names file and line.
    """
    body = ast.parse(source).body
    if cls is not None:
        body = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == cls).body
    for node in body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return list(_walk(node.value, _comments(source), "", file))
    return []


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}


def _items(node: ast.expr) -> list[tuple[str, ast.expr]]:
    """Return keys and values of `dict(key=value)` or `{"key": value}`, nothing for other expressions."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return [(keyword.arg or "", keyword.value) for keyword in node.keywords]
    if isinstance(node, ast.Dict):
        return [(ast.literal_eval(key), value) for key, value in zip(node.keys, node.values, strict=True) if key]
    return []


def _walk(node: ast.expr, comments: dict[int, str], prefix: str, file: str) -> Iterator[Entry]:
    for key, value in _items(node):
        if _items(value) and value.lineno != value.end_lineno:
            yield from _walk(value, comments, f"{prefix}{key}.", file)
        elif prefix + key != "other":  # a section that subclasses fill
            match = re.fullmatch(r"\(([^)]+)\) (.+)", comments.get(value.end_lineno or 0, ""))
            place = f"{file}:{value.lineno}: '{prefix}{key}'"
            if match is None:
                raise ValueError(f"{place} needs a comment '# (type) meaning' at the end of its line.")
            default = "dict" if _items(value) or isinstance(value, ast.Call) else type(ast.literal_eval(value)).__name__
            if default not in (*re.split(r", | or ", match[1]), "NoneType"):
                raise ValueError(f"{place} is documented as {match[1]}, but its default is of type {default}.")
            yield Entry(prefix + key, match[1], ast.unparse(value), match[2])


def class_entries(cls: type) -> list[Entry]:
    """Return the documented keys of a class's own `config`."""
    module = sys.modules[cls.__module__]
    return parse_defaults(inspect.getsource(module), "config", cls.__name__, Path(inspect.getfile(module)).name)


def model_entries(cls: type) -> list[Entry]:
    """Return a model's parameters, with the meanings in the `Args:` of the class that has its `__init__`.

    Raises:
        ValueError: a parameter is not described there.
    """
    owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
    text = (inspect.getdoc(owner) or "").partition("Args:\n")[2]
    meanings = {
        m[1]: " ".join(m[2].split()) for m in re.finditer(r"^    (\w+): (.+?)(?=^    \w+: |\n\n|\Z)", text, re.M | re.S)
    }
    entries = []
    for param in inspect.signature(cls).parameters.values():
        if param.name not in meanings:
            raise ValueError(f"{cls.__module__}.{cls.__name__}: the docstring's Args do not describe '{param.name}'.")
        default = "" if param.default is param.empty else repr(param.default)
        entries.append(Entry(param.name, str(param.annotation), default, meanings[param.name].rstrip(".")))
    return entries


def _table(title: str, entries: list[Entry], prefix: str) -> str:
    rows = []
    for entry in entries:
        kind, default, meaning = (text.replace("|", "\\|") for text in entry[1:])
        rows.append(f"| `{prefix}{entry.key}` | {kind} | {f'`{default}`' if default else 'required'} | {meaning} |\n")
    head = "| key | type | default | meaning |\n|---|---|---|---|\n"
    return f"\n## {title}\n\n{head}{''.join(rows)}" if rows else ""


def make_page() -> str:
    """Return the text of docs/config.md."""
    for module in MODULES:
        importlib.import_module(module)
    from ding_lite.config import schema
    from ding_lite.config.compat import IGNORED_KEYS, RENAMED_KEYS
    from ding_lite.envs import vector_env
    from ding_lite.policy import Policy
    from ding_lite.utils.registry import BUFFER_REGISTRY, ENV_REGISTRY, MODEL_REGISTRY, POLICY_REGISTRY

    def own(registry: dict[str, type]) -> list[tuple[str, type]]:
        """Leave out what is registered by others, such as tests in the same process."""
        return sorted((n, c) for n, c in registry.items() if c.__module__.startswith(("ding_lite.", "dizoo.")))

    page = INTRO + CREATE
    page += _table("Top level", parse_defaults(inspect.getsource(schema), "DEFAULTS", file="schema.py"), "")
    source = inspect.getsource(vector_env)
    page += _table("`env`", parse_defaults(source, "ENV_DEFAULTS", file="vector_env.py"), "env.")
    for name, cls in own(ENV_REGISTRY):
        page += _table(f"`env` of type `{name}`", class_entries(cls), "env.")
    page += _table("`policy`, whatever its type", class_entries(Policy), "policy.")
    for name, cls in own(POLICY_REGISTRY):
        page += _table(f"`policy` of type `{name}`", class_entries(cls), "policy.")
    for name, cls in own(MODEL_REGISTRY):
        page += _table(f"`policy.model` of type `{name}`", model_entries(cls), "policy.model.")
    for name, cls in own(BUFFER_REGISTRY):
        page += _table(f"Replay buffer of type `{name}`", class_entries(cls), f"{schema.BUFFER}.")
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

"""Finds config keys that a user's class declares and no code reads, such as one that is misspelt where it is read."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from ding_lite.utils.key import declared_keys

PACKAGE = "ding_lite"
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def unread_keys(cls: type, package: str = PACKAGE) -> list[str]:
    """Return the dotted names of keys that a class, or a base class outside `package`, declares and no code names.

    Code names a key by an attribute or by a text, in a file of ours, or in one that is loaded and does not belong to a
    library. In files of `package`, the attribute must be one of the key's section. The model gets its keys as
    arguments, so they count as read; so do those of a new section that is read as a whole.
    """
    foreign = [each for each in cls.__mro__ if each.__module__.partition(".")[0] not in (package, "builtins")]
    own_files = [_file_of(each) for each in foreign]
    if not all(file.is_file() for file in own_files):
        return []  # of a notebook, for instance, which has no file to search
    inherited = next((each for each in cls.__mro__ if each not in foreign), object)
    known = declared_keys(inherited)
    sections = {part for path in known for part in path.split(".")[:-1]}
    keys = {path: path.split(".") for path in declared_keys(cls) if path not in known and not path.startswith("model.")}
    keys.pop("type", None)
    for file, is_own in _files(own_files, package):
        if not keys:
            break
        names = _names(file)
        for path, parts in list(keys.items()):
            places = [f"{section}.{parts[-1]}" for section in parts[-2:-1] or ("cfg", "policy")]
            wanted = {f"'{parts[-1]}'", *(parts[-1:] if is_own else places), *(set(parts[:-1]) - sections)}
            if names & wanted:
                del keys[path]
    return list(keys)


def _file_of(cls: type) -> Path:
    """Return the file of a class; that of a config file is no module any more."""
    codes = [inspect.unwrap(each).__code__ for each in vars(cls).values() if inspect.isfunction(each)]
    return Path(codes[0].co_filename if codes else getattr(sys.modules.get(cls.__module__), "__file__", None) or "")


def _files(own_files: list[Path], package: str) -> Iterator[tuple[Path, bool]]:
    """Yield these files, then those of all modules outside libraries and of ours, and whether `package` lacks them."""
    yield from ((file, True) for file in own_files)
    for name, module in list(sys.modules.items()):
        file, root = getattr(module, "__file__", None) or "", name.partition(".")[0]
        if file.endswith(".py") and root != PACKAGE and not file.startswith(LIBRARIES) and Path(file).is_file():
            yield Path(file), root != package
    # not every file that reads keys is loaded when a config compiles
    yield from ((file, package != PACKAGE) for file in Path(__file__).parents[1].rglob("*.py"))


@functools.cache
def _names(file: Path) -> set[str]:
    """Return the names of the attributes that a file reads, and the words between the dots of its texts, in quotes.

    For `self._cfg.learn.tau` the names are, among others, 'tau' and 'learn.tau'.
    """
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    declared = {id(key) for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
    read = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)]
    names = {node.attr for node in read} | {f"{_last_name(node.value)}.{node.attr}" for node in read}
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in declared)
    words = (word for text in texts if isinstance(text, str) for word in text.split("."))
    return names | {f"'{word}'" for word in words}


def _last_name(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", "")).lstrip("_")

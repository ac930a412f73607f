"""Reads what a run has saved in its total_config.py, without running that file, and says what has changed since.

The file is Python, so that it can be run again. A directory of runs may come from somebody else, however, and reading
it must not run code. `read_saved_run` therefore evaluates the values that `save_config` writes, and nothing else.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ding_lite.config import schema as sc
from ding_lite.config.schema import plain
from ding_lite.utils.key import show
from ding_lite.utils.registry import ConfigError

FLOATS = {"inf": math.inf, "nan": math.nan}  # the names that a saved value may contain
# keys that say where the run is, and that it is resumed
OTHER = ("exp_name", "notes", "policy.learn.resume_training", "policy.learn.learner.hook.load_ckpt_before_run")


class SavedRun(NamedTuple):
    """The content of a run's total_config.py, see `save_config`."""

    main_config: dict[str, Any]  # the user's part of the compiled config
    create_config: dict[str, Any]  # the types and the modules to import
    limits: dict[str, int]  # limits of the run by name, such as `max_env_step`
    pipeline: str  # name of the function in `ding_lite.entry` that runs it
    import_dirs: list[str] = []  # absolute paths of the directories that contain the modules of `import_names`

    def importable_pair(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Add `import_dirs` to the end of `sys.path`, and return `(main_config, create_config)`."""
        append_to_path(self.import_dirs)
        return self.main_config, self.create_config


def append_to_path(folders: Iterable[str]) -> None:
    """Let modules of these directories be imported, unless another module that is found has their name."""
    sys.path += [folder for folder in folders if folder not in sys.path]


def read_saved_run(path: str | Path) -> SavedRun:
    """Read a file that `save_config` wrote; nothing in it is run.

    Raises:
        ConfigError: the file cannot be read, or holds something else than plain values.
    """
    values = _read_values(Path(path))
    pipeline = values.get("pipeline")
    if not isinstance(pipeline, str):
        raise ConfigError(
            f"'{path}': expected a string 'pipeline', got {show(pipeline)}. Start a new run of it with -c."
        )
    for name in ("main_config", "create_config", "limits"):
        if not isinstance(values.get(name), dict):
            raise ConfigError(f"'{path}': expected a dict '{name}', got {show(values.get(name))}.")
    folders = values.get("import_dirs", [])
    if not isinstance(folders, list) or not all(isinstance(each, str) and Path(each).is_absolute() for each in folders):
        raise ConfigError(f"'{path}': expected absolute paths in 'import_dirs', got {show(folders)}.")
    return SavedRun(**values)


def _read_values(path: Path) -> dict[str, Any]:
    """Return the values that a file assigns to the names of `SavedRun`'s fields."""
    line = 1
    try:
        assigned = {}
        for node in ast.parse(path.read_bytes(), str(path)).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(target, ast.Name) and target.id in SavedRun._fields:
                line = node.lineno
                assigned[target.id] = ast.literal_eval(_Numbers().visit(node).value)
        return assigned
    except OSError as error:
        raise ConfigError(f"Config file '{path}' does not exist or cannot be read: {error.strerror}.") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError) as error:  # what ast raises for any text
        what = sc.show_error(error) if isinstance(error, SyntaxError) else "this is code, not plain values"
        line = getattr(error, "lineno", None) or line
        raise ConfigError(
            f"Config file '{path}', line {line}: {what}. It is only read here, not run; to run it, name it with -c."
        ) from None


class _Numbers(ast.NodeTransformer):
    """Replaces `inf` and `nan` by the numbers, which Python has no literals for."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant(FLOATS[node.id]), node) if node.id in FLOATS else node


def changed_values(path: str | Path, cfg: Mapping[str, Any], limits: Mapping[str, int]) -> list[str]:
    """Return a string such as "policy.learn.learning_rate=5e-05 (0.001 at the start)" for each value that has changed.

    `path` is the file that `save_config` wrote when the run began. It continues with `cfg` and `limits`.
    """
    saved = read_saved_run(path)
    changes = _changes({**saved.main_config, **saved.limits}, {**plain(cfg, "cfg"), **limits})
    return [f"{key}={now!r} ({before!r} at the start)" for key, before, now in changes if key not in OTHER]


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key, the old and the new value of each key that is in both and differs."""
    for key, old in before.items():
        new = now.get(key, old)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _changes(old, new, f"{prefix}{key}.")
        elif old != new:
            yield prefix + key, old, new

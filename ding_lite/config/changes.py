"""Which values of a run's config have changed since it began."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ding_lite.config.saved import read_saved_run
from ding_lite.config.schema import plain

# keys that say where the run is, and that it is resumed
OTHER = ("exp_name", "notes", "policy.learn.resume_training", "policy.learn.learner.hook.load_ckpt_before_run")


def changed_values(path: str | Path, cfg: Mapping[str, Any], limits: Mapping[str, int]) -> list[str]:
    """Return a string such as "policy.learn.learning_rate=5e-05 (0.001 before)" for each value that has changed.

    Args:
        path: the file that `save_config` wrote when the run began.
        cfg: the compiled config of the run that continues.
        limits: its limits.

    Raises:
        ConfigError: the file cannot be read.
    """
    saved = read_saved_run(path)
    changes = _changes({**saved.main_config, **saved.limits}, {**plain(cfg, "cfg"), **limits})
    return [f"{key}={now!r} ({before!r} before)" for key, before, now in changes if key not in OTHER]


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key, the old and the new value of each key that is in both and differs."""
    for key, old in before.items():
        new = now.get(key, old)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _changes(old, new, f"{prefix}{key}.")
        elif old != new:
            yield prefix + key, old, new

"""What a sweep is about, however it chooses values: its config, the keys that differ, and the command lines of runs."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optuna.distributions import distribution_to_json

from ding_lite.config import compile_config
from ding_lite.launch.run_process import process_words
from ding_lite.sweep.study import Space, Value, check_space, first_values, to_words
from ding_lite.utils.directory_lock import find_trap_inside
from ding_lite.utils.registry import UserError
from ding_lite.utils.tree import dotted_items

LIMITS = {"max_env_step": "envstep", "max_train_iter": "train_iter"}  # and what a record calls them


class SweepPlan:
    """A sweep whose config, keys and directory have been checked.

    Args:
        args: the options of the command `sweep`.
        pair: the config.
        space: what differs among runs.
        words: the other words of the command, the same in all runs.
        limits: limits of each run, by their names on the command line.

    Attributes:
        folder: the directory of the sweep.
        seeds: those of `-s`, or that of the config.
        limit: the limit at whose parts runs are compared; 0: there is none. `limit_name` is its name.
        axis: what a record calls the count that it limits.
        problem: what all processes of a sweep must agree on.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        pair: tuple[dict[str, Any], dict[str, Any]],
        space: Space,
        words: Sequence[str],
        limits: Mapping[str, int],
    ) -> None:
        self.args, self.limits = args, limits
        self._pair, self._words = pair, words
        self.space = check_space(space, self.compile)
        first = self.compile(first_values(self.space))
        name = first.exp_name.rstrip("/").removesuffix(f"_seed{first.seed}")
        self.folder = Path(args.output or f"{name}_sweep")
        if trap := find_trap_inside(self.folder):
            raise UserError(f"Cannot sweep in '{self.folder}': {trap}")
        name = self.folder.resolve().name
        group = [f"tracker.group={name}"] if first.tracker.type and first.tracker.group is None else []
        self._options = process_words(args)
        self._common = ["-c", args.config, *self._options, *["--divide"] * args.divide, *group, *words]
        self.seeds = args.seeds or [first.seed]
        limit = next((limit for limit in LIMITS if limit in limits), "max_env_step")
        self.limit, self.limit_name, self.axis = limits.get(limit, 0), limit, LIMITS[limit]
        self.problem = self._describe(first)

    def compile(self, values: Mapping[str, Value], *words: str) -> Any:
        """Compile the config with values for the keys that differ among runs."""
        return compile_config(self._pair, overrides=[*self._words, *to_words(values), *words])

    def train(self, directory: str, seed: int, values: Mapping[str, Value], **limits: int) -> list[str]:
        """Return the command line of a run that writes into a directory; `limits` replace those of the sweep."""
        own = to_words({**values, **self.limits, **limits, "exp_name": directory})
        return ["train", "-s", str(seed), *self._common, *own]

    def resume(self, directory: str, values: Mapping[str, Value]) -> list[str]:
        """Return the command line that continues a run, with other values or limits."""
        return ["resume", directory, *self._options, *to_words(values)]

    def _describe(self, first: Any) -> dict[str, Any]:
        own = ("exp_name", "seed", "notes", *self.space)
        config = {key: value for key, value in dotted_items(first) if key not in own and not key.startswith("tracker.")}
        digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
        space = {key: distribution_to_json(values) for key, values in self.space.items()}
        return {"space": space, "seeds": self.seeds, "limits": self.limits, "score": self.args.score, "cfg": digest}

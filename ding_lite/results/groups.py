"""Groups of runs that differ only in their seed, and names that say how the groups differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ding_lite.results.run import Run
from ding_lite.utils.printable import printable
from ding_lite.utils.registry import UserError, closest

# A run is the same with another value of these keys. total_config.py has the values of the run's first start.
IGNORED = ("seed", "exp_name", "policy.learn.resume_training")
RECORDING = "tracker."  # begins keys that do not change a run either
BY = ("algorithm", "env", "run")
UNFINISHED = ("running", "interrupted", "killed")  # endings of runs that have not reached what ends them
LONGEST_NAME = 3  # differing keys in the name of a group
MISSING = "-"  # the value of a key that a run's config does not have


@dataclass(frozen=True)
class Group:
    """Runs that are repetitions of each other."""

    name: str  # what distinguishes it from the other groups of its environment
    env: str  # environment of the runs; several, joined by commas, if they were grouped across environments
    runs: tuple[Run, ...]  # at least one run

    def values(self, key: str) -> str:
        """Return the values of a config key in full, joined by commas if the runs differ in it."""
        return ", ".join(dict.fromkeys(full_value(run.config.get(key, MISSING)) for run in self.runs))


def group_runs(runs: Sequence[Run], by: str | None = None) -> list[Group]:
    """Divide runs into groups, in the order of the runs.

    Without `by`, a group holds the runs whose compiled configs are equal except for seed and directory. With `by`, it
    holds the runs of one environment with the same `algorithm` or value of a config key, or single ones with `run`.
    With `env`, it holds all runs of an environment.
    """
    name_of = _namer(runs, by) if by else None
    divided: dict[Any, list[Run]] = {}
    for run in runs:
        divided.setdefault((run.env, name_of(run)) if name_of else _identity(run), []).append(run)
    parts = list(divided.values())
    names = [name_of(part[0]) for part in parts] if name_of else _names(parts)
    envs = ["all environments" if by == "env" else part[0].env for part in parts]
    return [Group(name, env, tuple(part)) for name, env, part in zip(names, envs, parts, strict=True)]


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys in which configs differ, except those that do not change a run, in the order of the configs."""
    keys = dict.fromkeys(key for config in configs for key in config if _matters(key))
    return [key for key in keys if len({full_value(config.get(key, MISSING)) for config in configs}) > 1]


def describe_groups(groups: Sequence[Group]) -> list[str]:
    """Return lines about what makes averages of groups doubtful."""
    lines = []
    for group in groups:
        name, first = group.name, dict[tuple[Any, int | None], Run]()
        repeats = [run.name for run in group.runs if first.setdefault((_identity(run), run.seed), run) is not run]
        again = f"Some runs of '{name}' repeat the config and the seed of another one, so intervals are too short"
        partial = [f"{run.name} ({run.ending})" for run in group.runs if run.ending in UNFINISHED]
        doubts = {
            f"The runs of '{name}' differ in more than the seed": differing_keys([run.config for run in group.runs]),
            again: repeats,
            f"Some runs of '{name}' count only as far as they got": partial,
        }
        for doubt, names in doubts.items():
            more = len(names) - LONGEST_NAME
            few = ", ".join(names[:LONGEST_NAME]) + f" and {more} more" * (more > 0)
            lines += [f"{doubt}: {few}."] if names else []
    return lines


def full_value(value: Any) -> str:
    """Return a config value as text with all digits, the same for an integer and an equal float."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else printable(str(value))


def short_value(value: Any, digits: int = 6) -> str:
    """Return a config value as text, floats with at most `digits` digits."""
    return f"{value:.{digits}g}" if isinstance(value, float) else printable(str(value))


def short_values(values: Sequence[Any]) -> list[str]:
    """Return values of a config key as text: short, unless some that differ would look the same."""
    short, full = [short_value(value) for value in values], [full_value(value) for value in values]
    return short if len(set(short)) == len(set(full)) else full


def shorten(keys: Sequence[str]) -> list[str]:
    """Return the last parts of dotted keys, as few as distinguish each from the others."""

    def short(key: str) -> str:
        parts = key.split(".")
        names = (".".join(parts[-count:]) for count in range(1, len(parts)))
        return next((name for name in names if sum(f".{other}".endswith(f".{name}") for other in keys) == 1), key)

    return [short(key) for key in keys]


def _namer(runs: Sequence[Run], by: str) -> Callable[[Run], str]:
    """Return a function that names the group of a run; the runs of a group have one environment and one name."""
    if by in ("env", "algorithm"):
        return attrgetter(by)
    if by == "run":
        names = [run.name for run in runs]
        return lambda run: run.name if names.count(run.name) == 1 else printable(str(run.path))
    known = dict.fromkeys(key for run in runs for key in run.config)  # in their order: the hint is always the same
    if by not in known:
        raise UserError(f"--by {by}: expected {', '.join(BY)} or a config key.{closest(by, known)}")
    values = [run.config.get(by, MISSING) for run in runs]
    texts = {full_value(value): text for value, text in zip(values, short_values(values), strict=True)}
    return lambda run: f"{by.rpartition('.')[2]}={texts[full_value(run.config.get(by, MISSING))]}"


def _identity(run: Run) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, full_value(value)) for key, value in run.config.items() if _matters(key)))


def _matters(key: str) -> bool:
    """Return whether a config key distinguishes runs."""
    return key not in IGNORED and not key.startswith(RECORDING)


def _names(parts: Sequence[Sequence[Run]]) -> list[str]:
    """Return a name for each group: the algorithm, and what distinguishes it from others of the same algorithm."""
    names = [""] * len(parts)
    places: dict[tuple[str, str], list[int]] = {}
    for place, part in enumerate(parts):
        places.setdefault((part[0].env, part[0].algorithm), []).append(place)
    for (_, algorithm), alike in places.items():
        configs = [parts[place][0].config for place in alike]
        keys = _distinguishing(configs)
        columns = [short_values([config.get(key, MISSING) for config in configs]) for key in keys]
        for number, place in enumerate(alike):
            words = [f"{label}={column[number]}" for label, column in zip(shorten(keys), columns, strict=True)]
            names[place] = ", ".join([algorithm, *words])
    return names


def _distinguishing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a few keys in which configs differ, enough of them to distinguish all configs."""
    keys = differing_keys(configs)
    chosen: list[str] = []

    def classes(of: Sequence[str]) -> int:
        return len({tuple(full_value(config.get(key, MISSING)) for key in of) for config in configs})

    for key in keys:
        if classes([*chosen, key]) > classes(chosen):
            chosen.append(key)
    spare = [key for key in keys if key not in chosen]
    return sorted([*chosen, *spare[: max(LONGEST_NAME - len(chosen), 0)]], key=keys.index)

"""Reads the words of a sweep: the keys that it varies, and the values that it may give them.

`key=low..high` is a range of numbers, with `:log`, `:int` or a step such as `:0.1` after it; `key=a,b,c` is a choice.
Every other word `key=value` is the same in all trials.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ding_lite.utils.registry import ConfigError

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})((?::[^:]*)*)")
FORM = "low..high with :log, :int or a step, such as 1e-4..1e-2:log, 1..5:int and 0.5..0.9:0.1"
UNSWEPT = {
    "exp_name": "name the sweep's directory with -o",
    "seed": "give the seeds of each trial with --seeds",
    "max_env_step": "give one limit for all trials",
    "max_train_iter": "give one limit for all trials",
}
Value = bool | int | float | str | None
Distribution = CategoricalDistribution | FloatDistribution | IntDistribution
Space = dict[str, Distribution]  # by dotted keys of the config


def read_words(words: Sequence[str]) -> tuple[Space, list[str]]:
    """Return what differs among trials, and the words that are the same in all of them."""
    space, same, seen = Space(), list[str](), list[str]()
    for word in words:
        key, _, text = word.partition("=")
        key = "policy.type" if key == "policy" else key
        distribution = _read_range(key, text) or _read_choice(key, text)
        if key in seen and (distribution or key in space):
            raise ConfigError(f"{key} is given twice: leave out one of the words.")
        seen.append(key)
        if distribution is None:
            same.append(word)
        elif key in UNSWEPT:
            raise ConfigError(f"A sweep cannot vary {key}: {UNSWEPT[key]}.")
        else:
            space[key] = distribution
    if not space:
        key, _, text = next((word for word in words if ".." in word.partition("=")[2]), "").partition("=")
        if text:
            raise ConfigError(f"{key}: expected {FORM}, got '{text}'.")
        raise ConfigError(f"A sweep needs a key that differs: a list such as key=32,64, or {FORM}.")
    return space, same


def _read_choice(key: str, text: str) -> Distribution | None:
    """Return a choice, None if the text is one value. Lists and dicts stay strings, which the config parses again."""
    choices, values = split_choices(text), list[Value]()
    for choice in choices:
        try:
            value = ast.literal_eval(choice)
        except (ValueError, SyntaxError):
            value = choice
        values.append(value if isinstance(value, bool | int | float | None) else choice)
    if len(values) > 1 and ("" in choices or len(set(map(repr, values))) < len(values)):
        raise ConfigError(f"{key}: expected different values between the commas, got '{text}'.")
    return CategoricalDistribution(values) if len(values) > 1 else None


def split_choices(text: str) -> list[str]:
    """Return the parts of a string between its commas, except those inside brackets and quotes."""
    source = f"({text},)"
    try:
        values: Any = ast.parse(source, mode="eval").body
        parts = [ast.get_source_segment(source, value) or "" for value in values.elts]
    except (SyntaxError, ValueError):
        parts = text.split(",")
    return [part.strip() for part in parts]


def _read_range(key: str, text: str) -> Distribution | None:
    """Return a range, None if the text does not look like one."""
    match = RANGE.fullmatch(text)
    if match is None:
        return None
    low, high, options = float(match[1]), float(match[2]), match[3].split(":")[1:]
    steps = [float(option) for option in options if re.fullmatch(NUMBER, option)]
    names = [option for option in options if not re.fullmatch(NUMBER, option)]
    log, whole = "log" in names, "int" in names
    mistakes = {
        f"expected {FORM}": not {"log", "int"}.issuperset(names) or len(steps) > 1,
        "expected two ends, the lower one first": not low < high < math.inf,
        "expected two ends above 0 and no step for a logarithmic range": log and (low <= 0 or steps),
        "expected a step above 0 and at most the width of the range": steps and not 0 < steps[0] <= high - low,
        "expected whole numbers for :int": whole and not all(value.is_integer() for value in (low, high, *steps)),
    }
    for mistake in (mistake for mistake, made in mistakes.items() if made):
        raise ConfigError(f"{key}: {mistake}, got '{text}'.")
    if whole:
        return IntDistribution(int(low), int(high), log, int(steps[0]) if steps else 1)
    return FloatDistribution(low, high, log, steps[0] if steps else None)


def examples(distribution: Distribution) -> list[Value]:
    """Return all choices, or both ends of a range."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    return [distribution.low, distribution.high]


def first_values(space: Space) -> dict[str, Value]:
    """Return one possible value of each key."""
    return {key: examples(distribution)[0] for key, distribution in space.items()}


def check_space(space: Space, compiles: Callable[[Mapping[str, Value]], object]) -> Space:
    """Compile the config with every choice and with both ends of every range, and first values for the other keys.

    A range of whole numbers becomes one of integers if the key takes no fraction.
    """
    checked = dict(space)
    for key, kind in space.items():
        if isinstance(kind, FloatDistribution) and all(x.is_integer() for x in (kind.low, kind.high, kind.step or 0.0)):
            try:
                compiles({**first_values(checked), key: kind.low + 0.5})
            except ConfigError:
                checked[key] = IntDistribution(int(kind.low), int(kind.high), kind.log, int(kind.step or 1))
    for key, distribution in checked.items():
        for value in examples(distribution):
            compiles({**first_values(checked), key: value})
    return checked


def grid(space: Space) -> list[dict[str, Value]]:
    """Return all combinations of the values of the keys."""
    values = [_all_values(key, distribution) for key, distribution in space.items()]
    return [dict(zip(space, place, strict=True)) for place in itertools.product(*values)]


def _all_values(key: str, distribution: Distribution) -> list[Value]:
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    if distribution.step is None or distribution.log:
        raise ConfigError(f"{key}: a grid needs a list such as 0.001,0.003,0.01 or a step, not a range of all numbers.")
    low, high, step = distribution.low, distribution.high, distribution.step
    if isinstance(distribution, IntDistribution):
        return list(range(distribution.low, distribution.high + 1, distribution.step))
    return [float(f"{low + k * step:.12g}") for k in range(math.floor((high - low) / step + 1e-9) + 1)]


def to_words(values: Mapping[str, Value]) -> list[str]:
    """Return values as words `key=value` of the command line."""
    return [f"{key}={value}" for key, value in values.items()]

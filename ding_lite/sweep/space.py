"""Reads the words of a sweep: the keys that it varies, and the values that it may give them.

`key=low..high` is a range of numbers, with `:log`, `:int` or a step such as `:0.1` after it; `key=a,b,c` is a choice.
Every other word `key=value` is the same in all trials.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ding_lite.utils.registry import ConfigError

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})((?::[^:]*)*)")
LIKE_RANGE = re.compile(r"[-+.\d]*\d[.eE\d+-]*\.\.[-+.\d]")  # begins as a range does
FORM = "low..high with :log, :int or a step, such as 1e-4..1e-2:log, 1..5:int and 0.5..0.9:0.1"
UNSWEPT = {
    "exp_name": "name the sweep's directory with -o",
    "seed": "give the seeds of each trial with --seeds",
    "max_env_step": "give one limit for all trials",
    "max_train_iter": "give one limit for all trials",
}
Value = bool | int | float | str | None


@dataclass(frozen=True)
class Dimension:
    """A key that differs among trials.

    Attributes:
        key: dotted key of the config.
        choices: the values to choose from; empty for a range.
        low: smallest value of a range.
        high: largest value of a range.
        log: whether a range is sampled by orders of magnitude.
        step: distance of the values of a range; None: any number.
        whole: whether the values of a range are integers.
    """

    key: str
    choices: tuple[Value, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    whole: bool = False

    def examples(self) -> list[Value]:
        """Return all choices, or both ends of a range."""
        return list(self.choices) if self.choices else [self.number(self.low), self.number(self.high)]

    def grid(self) -> list[Value]:
        """Return all values.

        Raises:
            ConfigError: the range has infinitely many values.
        """
        step = self.step or (1 if self.whole and not self.log else None)
        if self.choices:
            return list(self.choices)
        if step is None:
            raise ConfigError(
                f"{self.key}: a grid needs a list such as 0.001,0.003,0.01 or a step, not a range of all numbers."
            )
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        return [self.number(float(f"{self.low + k * step:.12g}")) for k in range(count)]

    def number(self, value: float) -> int | float:
        """Return a number of the range, as an integer if it contains only these."""
        return int(value) if self.whole else float(value)

    def describe(self) -> Any:
        """Return the dimension as JSON, so that two sweeps can be compared."""
        how = {"log": self.log, "step": self.step, "whole": self.whole}
        return list(self.choices) if self.choices else {"low": self.low, "high": self.high, **how}


def read_words(words: Sequence[str]) -> tuple[list[Dimension], list[str]]:
    """Return what differs among trials, and the words that are the same in all of them.

    Raises:
        ConfigError: a range is malformed, a key is given twice or cannot be swept, or nothing differs.
    """
    found = [(word, _read_dimension(word)) for word in words]
    dimensions = [dimension for _, dimension in found if dimension]
    keys = ["policy.type" if key == "policy" else key for key in (word.partition("=")[0] for word in words)]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice and any(dimension.key == twice for dimension in dimensions):
        raise ConfigError(f"{twice} is given twice: leave out one of the words.")
    if not dimensions:
        ends = next((word.partition("=") for word in words if ".." in word.partition("=")[2]), None)
        if ends:
            raise ConfigError(f"{ends[0]}: expected {FORM}, got '{ends[2]}'.")
        raise ConfigError(f"A sweep needs a key that differs: a list such as key=32,64, or {FORM}.")
    return dimensions, [word for word, dimension in found if not dimension]


def _read_dimension(word: str) -> Dimension | None:
    """Return what a word `key=...` varies, None if it is one value."""
    key, _, text = word.partition("=")
    key = "policy.type" if key == "policy" else key
    choices = split_choices(text)
    dimension = _read_range(key, text)
    if dimension is None and len(choices) > 1:
        values = [_read_value(choice) for choice in choices]
        if "" in choices or len(set(map(repr, values))) < len(values):
            raise ConfigError(f"{key}: expected different values between the commas, got '{text}'.")
        dimension = Dimension(key, tuple(values))
    if dimension is not None and key in UNSWEPT:
        raise ConfigError(f"A sweep cannot vary {key}: {UNSWEPT[key]}.")
    return dimension


def split_choices(text: str) -> list[str]:
    """Return the parts of a string between its commas, except those inside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        depth += 0 if quote else (char in "([{") - (char in ")]}")
        if char == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _read_value(text: str) -> Value:
    """Return a choice; lists and dicts stay strings, which the config parses again."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, bool | int | float | None) else text


def _read_range(key: str, text: str) -> Dimension | None:
    """Return a range, None if the text does not look like one.

    Raises:
        ConfigError: it is malformed.
    """
    match = RANGE.fullmatch(text)
    if match is None:
        if LIKE_RANGE.match(text):
            raise ConfigError(f"{key}: expected {FORM}, got '{text}'.")
        return None
    low, high, options = float(match[1]), float(match[2]), match[3].split(":")[1:]
    steps = [option for option in options if re.fullmatch(NUMBER, option)]
    unknown = [option for option in options if option not in ("log", "int", *steps)]
    dimension = Dimension(key, (), low, high, "log" in options, float(steps[0]) if steps else None, "int" in options)
    mistake = ""
    if unknown or len(steps) > 1:
        mistake = f"expected {FORM}"
    elif not low < high < math.inf:
        mistake = "expected two ends, the lower one first"
    elif dimension.log and (low <= 0 or steps):
        mistake = "expected two ends above 0 and no step for a logarithmic range"
    elif steps and not 0 < float(steps[0]) <= high - low:
        mistake = "expected a step above 0 and at most the width of the range"
    elif dimension.whole and not all(value.is_integer() for value in (low, high, *map(float, steps))):
        mistake = "expected whole numbers for :int"
    if mistake:
        raise ConfigError(f"{key}: {mistake}, got '{text}'.")
    return dimension


def check_dimensions(
    dimensions: Sequence[Dimension], compiles: Callable[[Mapping[str, Value]], object]
) -> list[Dimension]:
    """Compile the config with every choice and with both ends of every range.

    A range of whole numbers becomes one of integers if the key takes no fraction.

    Args:
        dimensions: what differs; while one is checked, the others have their first values.
        compiles: compiles the config with values for some keys.

    Raises:
        ConfigError: a key does not exist, or does not take a value.
    """
    first = {dimension.key: dimension.examples()[0] for dimension in dimensions}
    checked = []
    for dimension in dimensions:
        whole = all(part.is_integer() for part in (dimension.low, dimension.high, dimension.step or 0.0))
        if not dimension.choices and whole and not dimension.whole:
            try:
                compiles({**first, dimension.key: dimension.low + 0.5})
            except ConfigError:
                dimension = replace(dimension, whole=True)
                first[dimension.key] = dimension.examples()[0]
        checked.append(dimension)
    for dimension in checked:
        for value in dimension.examples():
            compiles({**first, dimension.key: value})
    return checked


def to_words(values: Mapping[str, Value]) -> list[str]:
    """Return values as words `key=value` of the command line."""
    return [f"{key}={value}" for key, value in values.items()]

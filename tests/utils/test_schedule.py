"""Schedules: their numbers, worked by hand, and their mistakes, one line each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ding_lite.config.checks import check_schedule
from ding_lite.utils.key import Key, is_schedule
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.schedule import Schedule, Scheduled

PATH = "policy.learn.learning_rate"
RATE = Key(0.1, "step size", low=0, high=10)


def span(kind: str, start: float, end: float, over: float = 8, by: str = "env_step") -> dict[str, Any]:
    return dict(type=kind, start=start, end=end, over=over, by=by)


@pytest.mark.parametrize(
    ("schedule", "numbers"),
    [
        # x = 0, 1/4, 1/2, 1, and beyond
        (span("linear", 1.0, 3.0), [1.0, 1.5, 2.0, 3.0, 3.0]),
        (span("linear", 3, 1), [3.0, 2.5, 2.0, 1.0, 1.0]),
        # (1 - cos(pi x)) / 2 = 0, (1 - sqrt(1/2)) / 2 = 0.146447, 1/2, 1
        (span("cosine", 2.0, 0.0), [2.0, 2 - 2 * 0.14644661, 1.0, 0.0, 0.0]),
        # 16 (1/16)^x = 16, 16 / 2, 16 / 4, 1
        (span("exponential", 16.0, 1.0), [16.0, 8.0, 4.0, 1.0, 1.0]),
        # 1 + 2 exp(-count / 8), whose limit is 1
        (span("exp", 3.0, 1.0), [1 + 2 * math.exp(-count / 8) for count in (0, 2, 4, 8, 100)]),
        # between [2, 1] and [6, 5] one more for each count; before and after, the number of the nearest point
        (dict(type="piecewise", points=[[2, 1.0], [6, 5.0], [7, 0.0]], by="collect"), [1.0, 1.0, 3.0, 0.0, 0.0]),
    ],
)
def test_the_number_at_each_count(schedule: dict[str, Any], numbers: list[float]) -> None:
    found = [Schedule(**schedule).at(count) for count in (0, 2, 4, 8, 100)]
    assert found == pytest.approx(numbers, abs=1e-8)
    assert found[0] == numbers[0]  # the first and the last number are exact
    assert found[3:] == numbers[3:]
    assert all(type(number) is float for number in found)  # also where the config has an int
    check_schedule(PATH, replace(RATE, high=16), schedule)


def test_a_number_while_a_policy_is_built_is_a_number_that_knows_the_current_one() -> None:
    now = [2.0]
    number = Scheduled(0.5, lambda: now[0])
    assert (number + 1, number.current()) == (1.5, 2.0)
    now[0] = 3.0
    assert (float(number), number.current()) == (0.5, 3.0)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (RATE, {}, True),
        (RATE, 0.1, False),
        (Key(None, "", float), {}, True),
        (Key(1, ""), {}, False),  # an int
        (Key(None, "", dict), {}, False),
        (Key("a", "", choices=("a", "b")), {}, False),
    ],
)
def test_a_schedule_is_a_dict_where_a_number_is_expected(key: Key, value: Any, expected: bool) -> None:
    assert is_schedule(PATH, key, value) == expected
    assert not is_schedule("env.stop_value", key, value)


POINTS = dict(type="piecewise", points=[[0, 1.0], [10, 2.0]], by="env_step")


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({}, "expected a number, or a schedule of one of the types 'linear', 'cosine', 'exponential', 'exp', 'piece"),
        (span("square", 1, 2), f"{PATH}.type: expected a number, or a schedule of one of the types 'linear', 'cosine'"),
        (
            dict(type="linear", start=1, end=2, by="env_step"),
            f"{PATH}.over is missing: a schedule of type 'linear' has the fields type, start, end, over, by.",
        ),
        (
            {**span("cosine", 1, 2), "period": 3},
            f"Unknown key '{PATH}.period': a schedule of type 'cosine' has the fields type, start, end, over, by.",
        ),
        (span("linear", 1, 2, over=math.inf), f"{PATH}.over: expected a number of env steps above 0, got inf."),
        (span("linear", "high", 2), f"{PATH}: expected finite numbers in its schedule, got 'high'."),  # type: ignore[arg-type]
        (span("linear", 1, -2), f"{PATH}: expected at least 0, got -2. Meaning: step size."),
        (
            span("exponential", 1, 0),
            f"{PATH}: an exponential schedule needs numbers above 0, got 0: choose 'linear' or",
        ),
        ({**POINTS, "points": [0, 1]}, f"{PATH}.points: expected at least two pairs [env steps, number]"),
        (
            {**POINTS, "points": [[0, 1.0], [10, 2.0], [10, 3.0]]},
            f"{PATH}.points: expected env steps from 0 on in increasing order, got [0, 10, 10].",
        ),
    ],
)
def test_a_mistake_is_one_line(schedule: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_schedule(PATH, RATE, schedule)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("path", "key", "reason"),
    [
        (PATH, Key(0.1, "", constant=True), "it is only read when the run is built"),
        (PATH, Key(1, ""), "it is a whole number"),
        ("policy.model.v_min", RATE, "it is only read when the run is built"),
    ],
)
def test_a_number_that_cannot_change_is_named_with_the_reason(path: str, key: Key, reason: str) -> None:
    message = f"^{path} cannot change during a run, because {reason}: expected a number, got .'type': 'lin"
    with pytest.raises(ConfigError, match=message):
        check_schedule(path, key, span("linear", 1, 2))


def test_a_dict_in_place_of_a_whole_number_is_a_schedule_only_with_its_fields() -> None:
    assert is_schedule(PATH, Key(1, ""), span("linear", 1, 2))
    assert not is_schedule(PATH, Key(1, ""), {"type": "linear"})
    assert is_schedule(PATH, RATE, {"type": "linear"})
    assert not is_schedule(PATH, Key(True, ""), span("linear", 1, 2))

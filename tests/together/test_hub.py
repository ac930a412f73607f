"""Programs that run in turns: what they meet for, their order, their random generators and their errors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.together.hub import Hub, Program
from ding_lite.utils.seed import random_state, set_seed


def ignore(number: int, program: Program) -> None:
    """Do nothing at the end of a program."""


def same(values: list[Any]) -> list[Any]:
    """Compute nothing."""
    return values


def test_requests_with_the_same_key_are_computed_at_once() -> None:
    hub, groups = Hub(), list[list[int]]()

    def squares(values: list[int]) -> list[int]:
        groups.append(values)
        return [value * value for value in values]

    def count(first: int) -> list[int]:
        return [hub.meet((step,), ("square",), squares, first + step) for step in range(2)]

    programs = hub.run([partial(count, 1), partial(count, 5)], ignore)
    assert groups == [[1, 5], [2, 6]]
    assert [program.result for program in programs] == [[1, 4], [25, 36]]


def test_those_that_are_behind_go_first() -> None:
    hub, order = Hub(), list[str]()

    def note(values: list[str]) -> list[None]:
        order.extend(values)
        return [None] * len(values)

    def walk(name: str, steps: Sequence[int]) -> None:
        for step in steps:
            hub.meet((step,), (name,), note, f"{name}{step}")

    hub.run([partial(walk, "a", (1, 5)), partial(walk, "b", (2, 3, 4))], ignore)
    assert order == ["a1", "b2", "b3", "b4", "a5"]


def draw(seed: int, hub: Hub | None = None) -> list[float]:
    """Return numbers of all global generators, drawn in turns with other programs."""
    set_seed(seed)
    numbers = []
    for _ in range(3):
        numbers += [random.random(), float(np.random.rand()), float(torch.rand(()))]
        if hub is not None:
            hub.meet((0,), ("turn",), same, None)
    return numbers


def test_each_program_has_its_own_generators() -> None:
    expected = [draw(seed) for seed in range(3)]
    set_seed(7)
    hub, before = Hub(), random_state()
    programs = hub.run([partial(draw, seed, hub) for seed in range(3)], ignore)
    assert [program.result for program in programs] == expected
    after = random_state()
    assert (after["python"], after["numpy"]) == (before["python"], before["numpy"])
    assert torch.equal(after["torch"], before["torch"])


def test_an_error_ends_one_program_only() -> None:
    hub, ended = Hub(), list[int]()

    def fail() -> None:
        hub.meet((0,), ("x",), same, 0)
        raise KeyError("mine")

    def go_on() -> int:
        return sum(hub.meet((step,), ("x",), same, step) for step in range(4))

    first, second = hub.run([fail, go_on], lambda number, program: ended.append(number))
    assert isinstance(first.error, KeyError)
    assert (second.result, second.error, ended) == (6, None, [0, 1])


def test_an_error_of_what_is_computed_reaches_all_that_wait_for_it() -> None:
    hub = Hub()

    def fail(values: list[int]) -> list[int]:
        raise ValueError("too large")

    def ask() -> str:
        with pytest.raises(ValueError, match="too large"):
            hub.meet((0,), ("x",), fail, 1)
        return "caught"

    assert [program.result for program in hub.run([ask, ask], ignore)] == ["caught", "caught"]


def test_modes_of_torch_are_those_of_each_program() -> None:
    hub = Hub()

    def is_inference(values: list[int]) -> list[bool]:
        return [torch.is_inference_mode_enabled() for _ in values]

    def infer() -> tuple[bool, bool]:
        with torch.inference_mode():
            seen = hub.meet((0,), ("x",), is_inference, 0)
            return seen, torch.is_inference_mode_enabled()

    def learn() -> tuple[bool, bool]:
        return hub.meet((0,), ("x",), is_inference, 0), torch.is_inference_mode_enabled()

    programs = hub.run([infer, learn], ignore)
    assert [program.result for program in programs] == [(False, True), (False, False)]

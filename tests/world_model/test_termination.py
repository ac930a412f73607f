"""Where the function that knows terminal states comes from, and what it is given."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.run.setup import prepare_run
from ding_lite.utils import ConfigError
from ding_lite.world_model.termination import Termination
from tests.world_model.helpers import pair

STEPS = {"obs": torch.zeros(4, 2), "action": torch.zeros(4, 1), "next_obs": torch.tensor([[0.0], [1.1], [-2.0], [1.0]])}


def create(path: str = "", **env: Any) -> Termination:
    return Termination(prepare_run(pair(**env), pipeline="serial_pipeline_dyna", trains="serial_pipeline"), path)


def wrong(next_obs: torch.Tensor) -> torch.Tensor:
    return next_obs[:, 0]


def test_the_environments_method_is_found_through_its_wrappers() -> None:
    assert create()(**STEPS).tolist() == [False, True, True, False]
    assert create(known=False).function is None
    assert create(known=False)(**STEPS).tolist() == [False] * 4


def test_a_function_of_a_module_takes_its_place_and_what_it_names() -> None:
    assert create("tests.world_model.helpers:never")(**STEPS).tolist() == [False] * 4


def test_ensembles_of_steps_have_a_leading_dimension() -> None:
    assert create()(**{key: torch.stack([step, 2 * step]) for key, step in STEPS.items()}).tolist() == [
        [False, True, True, False],
        [False, True, True, True],
    ]


def test_a_function_that_returns_something_else_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"termination_fn: expected bool \[4\], got torch.float32 \[4\]"):
        create(f"{__name__}:wrong")(**STEPS)

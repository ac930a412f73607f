"""Runs that were killed and went on equal runs that nobody stopped; `resume.py` has all combinations."""

import random
from pathlib import Path

import pytest

from tests.survival.common import abandoned_memory, memory_left_since
from tests.survival.resume import Case, kill_and_go_on, kill_in_prefill

CASES = [
    pytest.param(Case("cartpole dqn", "subprocess", 1, ("job", "longer")), marks=pytest.mark.slow),
    Case("cartpole ppg", "subprocess", 2, ("restart 1",)),
    pytest.param(Case("masked taxi dqn", "subprocess", 2, ("rank 1", "job")), marks=pytest.mark.slow),
    pytest.param(Case("pong dqn", "native", 1, ("job",)), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.what}, {case.ranks} rank(s), {' + '.join(case.kills)}")
def test_a_run_that_was_killed_and_goes_on_equals_the_run_that_was_not(case: Case, tmp_path: Path) -> None:
    before = abandoned_memory()
    kill_and_go_on(case, tmp_path, "killed", random.Random(0))
    assert memory_left_since(before, 60) == []


@pytest.mark.slow
def test_before_the_first_checkpoint_a_restart_begins_again(tmp_path: Path) -> None:
    kill_in_prefill(tmp_path, "prefill", 1, random.Random(0))

"""A machine of two is cut off, and comes back; `machines.py` has more that may happen to one."""

import pytest

from tests.survival.machines import obstacle, play_inside


@pytest.mark.slow
def test_a_run_on_two_machines_outlives_that_one_is_cut_off_and_equals_another() -> None:
    reason = obstacle()
    if reason:
        pytest.skip(reason)
    run = play_inside(["cut"], timeout=400)
    assert run.returncode == 0, run.stdout + run.stderr

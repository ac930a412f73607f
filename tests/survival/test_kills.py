"""Four kills while a run saves: after each its newest state is there, and in the end nothing was lost."""

import pytest

from tests.survival.kills import INTERVAL, kill_often


@pytest.mark.slow
def test_after_each_kill_the_newest_state_can_be_loaded_and_is_of_the_last_interval() -> None:
    figures = kill_often(4, seed=0)
    assert figures["states loaded"] == 4
    assert figures["oldest, in iterations behind the last"] <= INTERVAL
    assert figures["iterations"] > 4 * INTERVAL

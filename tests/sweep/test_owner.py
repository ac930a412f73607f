"""Dead owners of trials, on this machine and on others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ding_lite.sweep import owner
from ding_lite.sweep.owner import ABANDONED, Watch, identify


def test_a_process_of_this_machine_is_looked_up() -> None:
    own = identify()
    assert not Watch().is_dead(0, own, None)
    assert Watch().is_dead(0, {**own, "started": "1"}, None)  # another process has its number now
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = {**own, "pid": child.pid, "started": owner._started(child.pid)}
    assert not Watch().is_dead(0, other, None)
    child.kill()
    child.wait()
    assert Watch().is_dead(0, other, None)
    assert child.stdin is not None
    child.stdin.close()


@pytest.mark.parametrize("there", [{**identify(), "machine": "elsewhere"}, {}])
def test_of_another_machine_a_missing_sign_of_life_counts(
    monkeypatch: pytest.MonkeyPatch, there: dict[str, object]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    watch = Watch()
    for at, sign, dead in [(0, 7.0, False), (ABANDONED, 7.0, False), (ABANDONED + 1, 8.0, False)]:
        now[0] = at
        assert watch.is_dead(3, there, sign) == dead  # the sign changes in time, whatever its clock says
    now[0] = 2 * ABANDONED + 2
    assert watch.is_dead(3, there, 8.0)
    assert not watch.is_dead(4, there, 8.0)  # it is seen for the first time

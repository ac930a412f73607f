"""Harm done to real runs: `slow` marks the most telling items of `tests.survival.faults`, `survival` the rest."""

from pathlib import Path

import pytest

from tests.survival.faults import FAULTS, Fault, inject

SLOW = {
    "SIGKILL in collect of rank 1, 1 restarts, ppo, subprocess",
    "SIGSTOP in learn of rank 1, dqn, subprocess",
    "SIGTERM to the launcher in collect of rank 0, dqn, subprocess",
    "disk full for a while in save of rank 0, dqn, base",
    "exception in learn of rank 1, dqn, subprocess",
    "step: os._exit in collect of rank 0, dqn, base",
    "SIGKILL to the launcher in collect of rank 0, dqn, base",
    "step: kill in collect of rank 1, 99 times, dqn, subprocess",
}
NAMES = [str(fault) for fault in FAULTS]
MARKS = [pytest.mark.slow if name in SLOW else pytest.mark.survival for name in NAMES]
ITEMS = [pytest.param(fault, id=name, marks=mark) for fault, name, mark in zip(FAULTS, NAMES, MARKS, strict=True)]


def test_each_fault_is_another_one() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) >= SLOW


@pytest.mark.parametrize("fault", ITEMS)
def test_a_fault_ends_a_run_or_is_recovered_from_in_time_and_leaves_nothing(tmp_path: Path, fault: Fault) -> None:
    assert inject(fault, tmp_path).wrong == []

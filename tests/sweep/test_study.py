"""A study that several processes share. Each object of the class stands for a process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna")
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BruteForceSampler
from optuna.storages._heartbeat import get_heartbeat_thread
from optuna.trial import Trial, TrialState

from ding_lite.sweep import study as module
from ding_lite.sweep.study import ERROR, RUNS, SharedStudy, count_points, first_number, open_study, read_words
from ding_lite.utils.registry import UserError
from tests.distributed.launcher import run_forked

SPACE = read_words(["a=1,2", "b=0..1:0.5"])[0]


@pytest.fixture(params=["journal.log", "sqlite:///study.db"])
def storage(request: pytest.FixtureRequest) -> str:
    return request.param


def share(storage: str, **problem: Any) -> SharedStudy:
    return open_study(storage, {"keys": 1, **problem}, study_name="mine", sampler=BruteForceSampler())


def claim(shared: SharedStudy, limit: int, distinct: bool = False) -> Trial:
    trial = shared.claim(SPACE, limit, distinct)
    assert trial is not None
    return trial


def test_processes_share_the_number_of_trials(storage: str) -> None:
    first, second = share(storage), share(storage)
    taken = [claim(first, 3), claim(second, 3), claim(first, 3)]
    assert second.claim(SPACE, 3) is None
    second.tell(taken[1], 3.0)
    assert [trial.state.name for trial in first.count()] == ["RUNNING", "COMPLETE", "RUNNING"]


def test_the_later_of_two_processes_that_take_the_last_trial_drops_it(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = share(storage), share(storage)
    ask = second.ask
    monkeypatch.setattr(second, "ask", lambda space: (claim(first, 1), ask(space))[1])  # late
    assert second.claim(SPACE, 1) is None
    assert [trial.number for trial in first.count()] == [0]


def test_a_failed_trial_counts_and_an_interrupted_one_does_not(storage: str) -> None:
    shared = share(storage)
    shared.retry(claim(shared, 1))
    trial = claim(shared, 1)
    trial.set_user_attr(ERROR, "too bad")
    shared.tell(trial, state=TrialState.FAIL)
    assert shared.claim(SPACE, 1) is None
    assert [trial.number for trial in shared.count()] == [1]


def test_an_abandoned_trial_is_tried_again_once(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 1)  # seconds
    first, second, third = (share(storage) for _ in range(3))
    lost = claim(first, 1)
    with get_heartbeat_thread(lost._trial_id, first._storage):
        lost.set_user_attr(RUNS, {"0": "trial_0000_seed0"})
        assert second.claim(SPACE, 1) is None
    deadline = time.monotonic() + 60
    while (again := third.claim(SPACE, 1)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert (again.params, again.user_attrs) == (lost.params, lost.user_attrs)
    assert first_number(third.trials[again.number]) == 0
    assert second.claim(SPACE, 1) is None
    with pytest.raises(UpdateFinishedTrialError):  # were its process alive, it would notice
        lost.report(1.0, 0)


def test_processes_take_different_places_of_a_grid(storage: str) -> None:
    processes, number = [share(storage), share(storage)], count_points(SPACE)
    taken = [claim(processes[k % 2], number, distinct=True) for k in range(number)]
    assert len({tuple(trial.params.values()) for trial in taken}) == number
    assert processes[0].claim(SPACE, number, distinct=True) is None
    for trial in taken:
        processes[0].tell(trial, 1.0)
    assert len(processes[1].count(TrialState.COMPLETE)) == number


def test_two_trials_at_one_place_of_a_grid_are_noticed(storage: str) -> None:
    shared = share(storage)
    first = claim(shared, 6, distinct=True)
    shared.enqueue_trial(first.params)
    assert shared.claim(SPACE, 6, distinct=True) is None  # and the place stays with the first
    assert claim(shared, 6, distinct=True).params != first.params


def test_another_problem_is_refused(storage: str) -> None:
    share(storage)
    share(storage)
    with pytest.raises(UserError, match="The sweep 'mine' was started with keys 1, and now has 2"):
        share(storage, keys=2)


@pytest.mark.parametrize("place", ["sqlite:///no/such/folder/study.db", "nodb://me:secret/@there/study", "mine.py/x"])
def test_a_storage_that_cannot_be_opened_is_told_in_one_line(place: str) -> None:
    Path("mine.py").touch()
    with pytest.raises(UserError, match=r"Cannot open the storage '.*Give the URL of a database") as caught:
        share(place)
    assert "secret" not in str(caught.value)


def test_half_a_line_at_the_end_of_a_journal_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "journal.log"
    claim(share(str(path)), 3)
    with open(path, "a") as file:
        file.write('{"op_code":4,"wor')
    claim(share(str(path)), 3)
    assert len(share(str(path)).count()) == 2


def test_the_lock_of_a_process_that_was_killed_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_PATIENCE", 3)
    first = share("journal.log")
    code = "import os; from tests.sweep.test_study import share\n"
    code += "share('journal.log')._storage._backend._lock.acquire(); os._exit(0)"
    assert run_forked(["-c", code], status=None).returncode == 0
    assert Path("journal.log.lock").exists()
    claim(first, 3)
    assert not Path("journal.log.lock").exists()

"""A study that several processes share. Each object of the class stands for a process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ding_lite.sweep import study as module
from ding_lite.sweep.owner import identify
from ding_lite.sweep.space import Dimension
from ding_lite.sweep.study import SharedStudy, StudyOptions
from ding_lite.utils.registry import UserError
from tests.distributed.launcher import run_forked

pytest.importorskip("optuna")
DIMENSIONS = [Dimension("a", (1, 2)), Dimension("b", low=0.0, high=1.0)]


@pytest.fixture(params=["journal.log", "sqlite:///study.db"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return request.param


def share(storage: str, trials: int = 3, sampler: str = "random", **changes: Any) -> SharedStudy:
    dimensions = changes.pop("dimensions", DIMENSIONS)
    options = StudyOptions("mine", storage, dimensions, trials, sampler, "none", 5)
    return SharedStudy(options, {"keys": 1, **changes})


def test_processes_share_the_number_of_trials(storage: str) -> None:
    first, second = share(storage), share(storage)
    taken = [first.claim(), second.claim(), first.claim()]
    assert second.claim() is None
    second.finish(taken[1], "COMPLETE", 3.0)
    assert [trial.state.name for trial in first.trials()] == ["RUNNING", "COMPLETE", "RUNNING"]


def test_the_later_of_two_processes_that_take_the_last_trial_drops_it(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = share(storage, trials=1), share(storage, trials=1)
    ask = second.study.ask

    def ask_late(*args: Any) -> Any:
        assert first.claim() is not None
        return ask(*args)

    monkeypatch.setattr(second.study, "ask", ask_late)
    assert second.claim() is None
    assert [trial.number for trial in first.trials()] == [0]


def test_a_failed_trial_counts_and_a_dropped_one_does_not(storage: str) -> None:
    shared = share(storage, trials=1)
    shared.drop(shared.claim())
    trial = shared.claim()
    shared.finish(trial, "FAIL", error="too bad")
    assert shared.claim() is None
    assert [trial.user_attrs["error"] for trial in shared.trials()] == ["too bad"]


def test_an_abandoned_trial_is_tried_again_once(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (share(storage, trials=1) for _ in range(3))
    with monkeypatch.context() as patch:
        patch.setattr(module, "identify", lambda: {**identify(), "pid": 2**30})
        lost = first.claim()
        lost.set_user_attr("runs", {"0": "trial_0000_seed0"})
    second._retry_abandoned()
    third._retry_abandoned()
    again = third.claim()
    assert again.params == lost.params
    assert (again.user_attrs["runs"], module.directory_number(again)) == ({"0": "trial_0000_seed0"}, 0)
    assert second.claim() is None
    with pytest.raises(first.finished_elsewhere):  # were it not dead, it would notice
        lost.report(1.0, 0)


def test_processes_take_different_places_of_a_grid(storage: str) -> None:
    dimensions = [Dimension("a", (1, 2)), Dimension("b", low=0.0, high=1.0, step=0.5)]
    processes = [share(storage, 6, "grid", dimensions=dimensions) for _ in range(2)]
    taken = [processes[k % 2].claim().params for k in range(6)]
    assert [(values["a"], values["b"]) for values in taken] == [(a, b) for a in (1, 2) for b in (0.0, 0.5, 1.0)]
    assert processes[0].claim() is None


def test_two_trials_at_one_place_of_a_grid_are_noticed(storage: str) -> None:
    dimensions = [Dimension("a", (1, 2, 3))]
    shared = share(storage, 3, "grid", dimensions=dimensions)
    shared.claim()
    shared.study.enqueue_trial({"a": 1})
    assert shared.claim() is None  # and the place stays with the first
    assert shared.claim().params == {"a": 2}


def test_another_problem_is_refused(storage: str) -> None:
    share(storage)
    share(storage)
    with pytest.raises(UserError, match="The sweep 'mine' was started with keys 1, and now has 2"):
        share(storage, keys=2)


@pytest.mark.parametrize("place", ["sqlite:///no/such/folder/study.db", "nodb://me:secret/@there/study", "mine.py/x"])
def test_a_storage_that_cannot_be_opened_is_told_in_one_line(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").touch()
    with pytest.raises(UserError, match=r"Cannot open the storage '.*Give the URL of a database") as caught:
        share(place)
    assert "secret" not in str(caught.value)


def test_half_a_line_at_the_end_of_a_journal_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "journal.log"
    share(str(path)).claim()
    with open(path, "a") as file:
        file.write('{"op_code":4,"wor')
    shared = share(str(path))
    assert shared.claim() is not None
    assert len(share(str(path)).trials()) == 2


def test_the_lock_of_a_process_that_was_killed_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the usual path is relative
    monkeypatch.setattr(module, "LOCK_PATIENCE", 3)
    first = share("journal.log")
    code = "import os; from tests.sweep.test_study import share\n"
    code += "share('journal.log').study._storage._backend._lock.acquire(); os._exit(0)"
    assert run_forked(["-c", code]).returncode == 0
    assert Path("journal.log.lock").exists()
    assert first.claim() is not None
    assert not Path("journal.log.lock").exists()


def test_signs_of_life_are_rare(storage: str) -> None:
    shared = share(storage)
    trial = shared.claim()
    shared.sign([trial])
    before = trial.user_attrs["sign_of_life"]
    shared.sign([trial])
    assert trial.user_attrs["sign_of_life"] == before

"""Sweeps of runs that are not trained."""

from __future__ import annotations

import json
import os
import signal
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna")
from optuna.trial import Trial, TrialState

from ding_lite.config import read_pair
from ding_lite.launch import run_process
from ding_lite.results.run import Evaluations
from ding_lite.sweep import driver, study
from ding_lite.sweep.driver import MARKS, MAX_FAILURES, Sweep
from ding_lite.sweep.plan import SweepPlan
from ding_lite.sweep.study import read_words
from ding_lite.utils.registry import UserError
from tests.run.helpers import CONFIG
from tests.sweep.helpers import FakeRun

RATE = "policy.learn.learning_rate"
OPTIONS = {"trials": None, "jobs": 1, "seeds": [0], "sampler": "grid", "pruner": "none", "prune_after": 1}
OPTIONS |= {
    "score": "best",
    "output": "mine",
    "storage": "",
    "nproc": 1,
    "max_restarts": 0,
    "divide": False,
    "submit": None,
}
LIMITS = {"max_env_step": 100}


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_process, "RunProcess", FakeRun)
    monkeypatch.setattr(run_process, "LOOK_PERIOD", 0.0)
    monkeypatch.setattr(driver, "write_outcome", lambda study, *rest: bool(study.count(TrialState.COMPLETE)))
    FakeRun.reset()


def create(rates: str, fixed: tuple[str, ...] = (), limits: dict[str, int] = LIMITS, **options: Any) -> Sweep:
    words = ("env.stop_value=None", *fixed)
    args = Namespace(config=str(CONFIG), **OPTIONS | options)
    sweep = Sweep(SweepPlan(args, read_pair(CONFIG), read_words([f"{RATE}={rates}"])[0], words, limits))
    for rate in rates.split(",") if not sweep._study.trials else []:  # a grid has no order of its own
        sweep._study.enqueue_trial({RATE: float(rate)})
    return sweep


def run(rates: str, **options: Any) -> list[Any]:
    """Run a sweep; return the learning rates of its trials, how they ended, and their scores."""
    sweep = create(rates, **options)
    assert sweep.run() == 0
    return [(trial.params[RATE], trial.state.name, trial.value) for trial in sweep._study.count()]


def at_look(number: int, act: Callable[[], object]) -> None:
    """Do something when runs are looked at for the n-th time."""
    FakeRun.look = lambda count: act() if count == number else None


def test_a_score_is_the_mean_over_the_seeds() -> None:
    # the best of ten evaluations is 10 times the rate, and the seed
    expected = [(0.1, "COMPLETE", pytest.approx(5.0)), (0.2, "COMPLETE", pytest.approx(6.0))]
    assert run("0.1,0.2", seeds=[3, 5], jobs=2) == expected
    assert sorted(path.name for path in Path("mine").glob("trial*")) == [
        f"trial_{number:04}_seed{seed}" for number in (0, 1) for seed in (3, 5)
    ]


def test_a_trial_that_falls_behind_is_pruned_before_its_second_seed() -> None:
    ended = run("0.1,0.2,0.01", seeds=[0, 1], pruner="median", prune_after=2)
    assert [state for _, state, _ in ended] == ["COMPLETE", "COMPLETE", "PRUNED"]
    assert "exp_name=mine/trial_0002_seed0" in FakeRun.started[-1]
    assert len(list(Path("mine").glob("trial*"))) == 5


def test_a_trial_that_fails_counts_and_the_sweep_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    FakeRun.failing = {"0.2"}
    assert [state for _, state, _ in run("0.1,0.2,0.3")] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert "trial 1 failed: it is unlucky (learning_rate=0.2)" in capsys.readouterr().err


def test_a_sweep_whose_first_trials_fail_ends() -> None:
    FakeRun.failing = {"0.1", "0.2", "0.3"}
    with pytest.raises(UserError, match=f"The first {MAX_FAILURES} trials failed"):
        create("0.1,0.2,0.3,0.4").run()
    assert len(FakeRun.started) == MAX_FAILURES


def test_a_signal_interrupts_and_the_same_command_continues() -> None:
    at_look(13, lambda: os.kill(os.getpid(), signal.SIGTERM))  # in the second trial
    assert create("0.1,0.2").run() == 128 + signal.SIGTERM
    assert [words[0] for words in FakeRun.started] == ["train", "train"]
    ended = run("0.1,0.2")
    assert FakeRun.started[2] == ["resume", "mine/trial_0001_seed0", "--nproc", "1", "--max-restarts", "0"]
    assert sorted(ended) == [(0.1, "COMPLETE", pytest.approx(1.0)), (0.2, "COMPLETE", pytest.approx(2.0))]
    assert sorted(run("0.1,0.2")) == sorted(ended)  # nothing is left to do
    assert len(FakeRun.started) == 3


@pytest.mark.parametrize("damaged", [False, True])
def test_what_a_killed_process_has_left_is_continued(damaged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = create("0.1,0.2", seeds=[3, 5])
    trial = killed._study.claim(killed._plan.space, 2)
    assert trial is not None
    steps = killed._try(trial)
    while len(FakeRun.started) < 2:  # until its second run has begun
        next(steps)
    killed._processes[0].send_signal(signal.SIGTERM)  # which it receives when its parent dies
    steps.close()
    monkeypatch.setattr(FakeRun, "damaged", damaged)
    monkeypatch.setattr(study, "GRACE", -1)  # seconds
    assert [state for _, state, _ in run("0.1,0.2", seeds=[3, 5])] == ["COMPLETE", "COMPLETE"]
    anew = ["train"] * damaged  # if no checkpoint can be read
    assert sorted(words[0] for words in FakeRun.started) == ["resume", *anew, "train", "train", "train", "train"]


def test_the_run_of_a_trial_that_another_process_took_over_is_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    other = create("0.1,0.2")._study
    at_look(3, lambda: other.retry(Trial(other, other.trials[0]._trial_id)))
    assert sorted(run("0.1,0.2")) == [(0.1, "COMPLETE", pytest.approx(1.0)), (0.2, "COMPLETE", pytest.approx(2.0))]
    assert "trial 0 was taken over by another process" in capsys.readouterr().err
    assert FakeRun.started[-1][:2] == ["resume", "mine/trial_0000_seed0"]  # which has a checkpoint, as it was stopped


def test_a_storage_that_fails_stops_the_runs_and_is_one_line() -> None:
    journal = Path("mine/journal.log")
    at_look(3, lambda: journal.rename("gone") and journal.mkdir())  # type: ignore[func-returns-value]
    with pytest.raises(
        UserError, match=r"storage or directory fails, so its runs were stopped: .*Repeat the command to continue"
    ):
        create("0.1,0.2").run()
    assert json.loads(Path("mine/trial_0000_seed0/result.json").read_text()) == {"stop_reason": "interrupted"}


def test_another_problem_is_refused_in_the_same_directory() -> None:
    create("0.1,0.2")
    changed: list[dict[str, Any]] = [{"limits": {"max_env_step": 7}}, {"fixed": ("policy.nstep=2",)}, {"score": "last"}]
    for changes in changed:
        with pytest.raises(UserError, match=r"The sweep 'mine' was started with .*, and now has .* -o DIR"):
            create("0.1,0.2", **changes)
    with pytest.raises(UserError, match="was started with space"):
        create("0.1,0.3")
    create("0.1,0.2", jobs=2, sampler="random", trials=9)  # these may change


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("name", ["journal.log", "trials.csv", "jobs"])
def test_a_sweep_follows_no_link_of_another_user(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).symlink_to(tmp_path / "own")
    os.lchown(tmp_path / "mine" / name, 65534, 65534)
    with pytest.raises(UserError, match=f"Cannot sweep in 'mine': 'mine/{name}' is a link of user 65534"):
        create("0.1,0.2")
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/b", 3])
def test_a_shared_storage_cannot_name_a_directory_elsewhere(tmp_path: Path, name: Any) -> None:
    sweep = create("0.1,0.2")
    (tmp_path / "outside" / "ckpt").mkdir(parents=True)
    (tmp_path / "outside" / "ckpt" / "ckpt_last.pth.tar").touch()
    sweep._study._storage.set_trial_user_attr(sweep._study.trials[0]._trial_id, study.RUNS, {"0": name})
    assert sweep.run() == 0
    assert [words[0] for words in FakeRun.started] == ["train", "train"]


@pytest.mark.parametrize(
    ("limits", "score", "ended", "expected"),
    [
        ({"max_env_step": 100}, "best", False, {5: 1.0, 10: 3.0}),  # a mark every 5 steps; 15 has not been passed
        ({"max_env_step": 100}, "last", True, {5: 1.0, 10: 3.0, **dict.fromkeys(range(15, 101, 5), 2.0)}),
        ({"max_env_step": 100}, "best", True, {5: 1.0, **dict.fromkeys(range(10, 101, 5), 3.0)}),  # keeps its score
        ({"max_train_iter": 200}, "best", False, {10: 1.0, 20: 3.0}),  # iterations are twice the steps
    ],
)
def test_marks_are_parts_of_the_limit(
    tmp_path: Path, limits: dict[str, int], score: str, ended: bool, expected: dict[int, float]
) -> None:
    points = [(0, 1.0), (8, 3.0), (12, 2.0), (13, None)]
    records = [{"envstep": x, "train_iter": 2 * x, "eval/return_mean": value} for x, value in points]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    assert create("0.1,0.2", limits=limits, score=score)._marks(Evaluations(tmp_path), ended) == expected
    assert len(expected) in (2, 3, MARKS)

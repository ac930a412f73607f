"""Sweeps of runs that are not trained."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ding_lite.sweep import driver, study
from ding_lite.sweep.driver import HOPELESS, Sweep, SweepOptions
from ding_lite.sweep.owner import identify
from ding_lite.sweep.space import read_words
from ding_lite.utils.registry import UserError
from tests.entry.helpers import CONFIG
from tests.sweep.helpers import FakeRun

pytest.importorskip("optuna")
RATE = "policy.learn.learning_rate"
OPTIONS = SweepOptions(
    config=str(CONFIG),
    dimensions=(),
    overrides=("env.stop_value=None",),
    limits={"max_env_step": 100},
    saved_limits={"max_env_step": 100},
    seeds=(0,),
    trials=0,
    jobs=1,
    nproc=1,
    run_words=(),
    resume_words=("--nproc", "1"),
    sampler="grid",
    pruner="none",
    prune_after=1,
    score="best",
    directory="mine",
    storage="",
)


@pytest.fixture(autouse=True)
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driver, "RunProcess", FakeRun)
    monkeypatch.setattr(driver, "PERIOD", 0.0)
    monkeypatch.setattr(driver, "write_outcome", lambda study, *rest: bool(study.trials("COMPLETE")))
    monkeypatch.setattr(FakeRun, "started", [])
    monkeypatch.setattr(FakeRun, "failing", set())


def create(*words: str, **changes: Any) -> Sweep:
    return Sweep(replace(OPTIONS, dimensions=tuple(read_words(words)[0]), **changes))


def endings(sweep: Sweep) -> list[Any]:
    return [(trial.params[RATE], trial.state.name, trial.value) for trial in sweep._study.trials()]


def test_a_score_is_the_mean_over_the_seeds(tmp_path: Path) -> None:
    sweep = create(f"{RATE}=0.1,0.2", seeds=(3, 5), jobs=2)
    assert sweep.run() == 0
    # the best of ten evaluations is 10 times the rate, and the seed
    assert sorted(endings(sweep)) == [(0.1, "COMPLETE", pytest.approx(5.0)), (0.2, "COMPLETE", pytest.approx(6.0))]
    assert sorted(path.name for path in (tmp_path / "mine").glob("trial*")) == [
        f"trial_{number:04}_seed{seed}" for number in (0, 1) for seed in (3, 5)
    ]


def test_the_runs_of_a_tracked_sweep_share_its_name() -> None:
    tracked = (*OPTIONS.overrides, "tracker.type=wandb")
    create(f"{RATE}=0.1,0.2", overrides=tracked).run()
    create(f"{RATE}=0.1,0.2", overrides=(*tracked, "tracker.group=ours"), directory="other").run()
    create(f"{RATE}=0.1,0.2", directory="third").run()
    groups = [[word for word in words if word.startswith("tracker.group=")] for words in FakeRun.started]
    assert groups == 2 * [["tracker.group=mine"]] + 2 * [["tracker.group=ours"]] + 2 * [[]]
    create(f"{RATE}=0.1,0.2").run()  # whether its runs are tracked does not make it another sweep
    assert len(FakeRun.started) == 6


def test_a_trial_that_falls_behind_is_pruned_before_its_second_seed() -> None:
    sweep = create(f"{RATE}=0.1,0.2,0.01", seeds=(0, 1), pruner="median", prune_after=2)
    assert sweep.run() == 0
    assert [state for _, state, _ in endings(sweep)] == ["COMPLETE", "COMPLETE", "PRUNED"]
    last = FakeRun.started[-1]
    assert "exp_name=mine/trial_0002_seed0" in last
    assert len(list(Path("mine").glob("trial*"))) == 5


def test_a_trial_that_fails_counts_and_the_sweep_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    FakeRun.failing = {"0.2"}
    sweep = create(f"{RATE}=0.1,0.2,0.3")
    assert sweep.run() == 0
    assert [state for _, state, _ in endings(sweep)] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert "trial 1 failed: it is unlucky (learning_rate=0.2)" in capsys.readouterr().err


def test_a_sweep_whose_first_trials_fail_ends() -> None:
    FakeRun.failing = {"0.1", "0.2", "0.3"}
    sweep = create(f"{RATE}=0.1,0.2,0.3,0.4")
    with pytest.raises(UserError, match=f"The first {HOPELESS} trials failed"):
        sweep.run()
    assert len(FakeRun.started) == HOPELESS


def test_a_signal_interrupts_and_the_same_command_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter(range(100))
    look = FakeRun.status.fget  # type: ignore[attr-defined]

    def status(run: FakeRun) -> int | None:
        if next(looks) == 13:  # in the second trial
            os.kill(os.getpid(), signal.SIGTERM)
        return look(run)

    with monkeypatch.context() as patch:
        patch.setattr(FakeRun, "status", property(status))
        assert create(f"{RATE}=0.1,0.2").run() == 128 + signal.SIGTERM
    assert [words[0] for words in FakeRun.started] == ["train", "train"]
    sweep = create(f"{RATE}=0.1,0.2")
    assert sweep.run() == 0
    assert FakeRun.started[2] == ["resume", "mine/trial_0001_seed0", "--nproc", "1"]
    assert sorted(endings(sweep)) == [(0.1, "COMPLETE", pytest.approx(1.0)), (0.2, "COMPLETE", pytest.approx(2.0))]
    assert create(f"{RATE}=0.1,0.2").run() == 0  # nothing is left to do
    assert len(FakeRun.started) == 3


@pytest.mark.parametrize("damaged", [False, True])
def test_what_a_killed_process_has_left_is_continued(damaged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRun, "damaged", damaged)
    dead = {**identify(), "pid": 2**30}
    with monkeypatch.context() as patch:
        patch.setattr(study, "identify", lambda: dead)
        killed = create(f"{RATE}=0.1,0.2", seeds=(3, 5))
        runs = killed._carry_out(killed._study.claim())
        while runs.scores == [] or runs.process is None:  # until its second run has begun
            assert runs.advance() is None
        runs.process.send_signal(signal.SIGTERM)  # which it receives when its parent dies
    sweep = create(f"{RATE}=0.1,0.2", seeds=(3, 5))
    assert sweep.run() == 0
    anew = ["train"] * damaged  # if no checkpoint can be read
    assert [words[0] for words in FakeRun.started] == ["train", "train", "resume", *anew, "train", "train"]
    assert [state for _, state, _ in endings(sweep)] == ["COMPLETE", "COMPLETE"]


def test_another_problem_is_refused_in_the_same_directory() -> None:
    create(f"{RATE}=0.1,0.2")
    for changes in ({"limits": {"max_env_step": 7}}, {"overrides": ("policy.nstep=2",)}, {"score": "last"}):
        with pytest.raises(UserError, match=r"The sweep 'mine' was started with .* -o DIR"):
            create(f"{RATE}=0.1,0.2", **changes)
    with pytest.raises(UserError, match="was started with keys"):
        create(f"{RATE}=0.1,0.3")
    create(f"{RATE}=0.1,0.2", jobs=2, sampler="random", trials=9)  # these may change


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "..", "a/b", 3])
def test_a_shared_storage_cannot_name_a_directory_elsewhere(tmp_path: Path, name: Any) -> None:
    sweep = create(f"{RATE}=0.1,0.2")
    (tmp_path / "outside" / "ckpt").mkdir(parents=True)
    (tmp_path / "outside" / "ckpt" / "ckpt_last.pth.tar").touch()
    sweep._study.study.enqueue_trial({RATE: 0.1}, user_attrs={study.RUNS: {"0": name}, study.CONTINUES: "../x"})
    with pytest.raises(
        UserError, match=r"says that trial 0 writes into .*: expected the name of a directory in 'mine'"
    ):
        sweep.run()
    assert FakeRun.started == []

"""Populations of runs that are not trained, but save real checkpoints; and one that is trained."""

from __future__ import annotations

import json
import math
import os
import signal
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("optuna")
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ding_lite.config import read_pair, read_saved_run
from ding_lite.launch import run_process
from ding_lite.sweep.plan import SweepPlan
from ding_lite.sweep.population import Population, draw, explore, step_points
from ding_lite.sweep.study import read_words
from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.checkpoint.store import CheckpointStore
from ding_lite.utils.registry import ConfigError, UserError
from tests.cli.commands import mistake
from tests.distributed.launcher import run_forked
from tests.run.helpers import CONFIG, SHORT, metrics
from tests.sweep.helpers import FakeRun
from tests.sweep.test_driver import OPTIONS

RATE = "policy.learn.learning_rate"
SPACE = f"{RATE}=0.001..0.1:log"


class Learner(FakeRun):
    """A run whose only weight grows by its learning rate with each env step, and which is evaluated at its limit."""

    def __init__(self, words: Sequence[str], side_by_side: int = 1) -> None:
        FakeRun.started.append(list(words))
        values = dict(word.split("=", 1) for word in words if "=" in word)
        self._rate, self._limit = float(values[RATE]), int(values["max_env_step"])
        resumed = words[0] == "resume"
        self._path = Path(words[1] if resumed else values["exp_name"])
        self._path.mkdir(exist_ok=True)
        self._file, self._status = self._path / "metrics.jsonl", None
        if resumed:
            self._state = load_checkpoint(str(self._path / "ckpt" / "ckpt_last.pth.tar"))
        else:
            seed = int(words[words.index("-s") + 1])
            self._state = {"policy": {"weight": torch.zeros(2), "schedules": {"seed": seed}}, "collector": {"steps": 0}}
        (self._path / "result.json").unlink(missing_ok=True)

    @property
    def status(self) -> int | None:
        FakeRun.looks += 1
        FakeRun.look(FakeRun.looks)
        if self._status is None:
            number = self._limit - self._state["collector"]["steps"]
            weight = self._state["policy"]["weight"] + number * self._rate
            if f"{self._path.name} {self._limit}" in FakeRun.failing:
                weight, number = weight * math.nan, 0
            self._state["policy"]["weight"], self._state["collector"]["steps"] = weight, self._limit
            if number:
                CheckpointStore(str(self._path / "ckpt"), 2).save(self._limit, self._state, None)
            record = {"envstep": self._limit, "train_iter": 0, "time": 0}
            self._write(record | {"eval/return_mean": float(weight[0]) if number else None})
            self._end("max_env_step", int(not number))
        return self._status

    def _end(self, reason: str, status: int) -> None:
        self._status, result = status, {"stop_reason": reason, "envstep": self._state["collector"]["steps"]}
        if not 0 < status <= 128:  # a run that fails leaves no result
            (self._path / "result.json").write_text(json.dumps(result))


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_process, "RunProcess", Learner)
    monkeypatch.setattr(run_process, "LOOK_PERIOD", 0.0)
    FakeRun.reset()


def create(*words: str, **options: Any) -> Population:
    args = {**OPTIONS, "sampler": "pbt", "trials": 5, "rounds": 4, "seeds": [7], **options}
    space, same = read_words([SPACE, "env.stop_value=None", *words])
    limits = {"max_env_step": 400} if options.get("limited", True) else {}
    plan = SweepPlan(Namespace(config=str(CONFIG), **args), read_pair(CONFIG), space, same, limits)
    return Population(plan)


def rate(values: dict[str, Any]) -> float:
    return float(values[RATE])


def rows() -> list[list[str]]:
    return [line.split(",") for line in Path("mine/population.csv").read_text().splitlines()[1:]]


def test_the_worst_takes_over_what_the_best_has_learned() -> None:
    """Weights grow by 100 times the rate in each round, so the order after the first one is that of the rates."""
    Path("result.json").write_text(json.dumps({"stop_reason": "stop_value"}))  # of a run here, which is no member
    population = create()
    rates = [rate(member.values) for member in population.members]
    assert population.run() == 0
    table = rows()
    assert [(row[0], row[1], row[2]) for row in table] == [
        (str(part), str(100 * part), str(number)) for part in (1, 2, 3, 4) for number in range(5)
    ]
    first, second = table[:5], table[5:10]
    worst, best = int(np.argmin(rates)), int(np.argmax(rates))
    assert [row[4] for row in second] == [str(best) if number == worst else "" for number in range(5)]
    scores = [float(row[3]) for row in second]
    for number, row in enumerate(second):  # the weight is that of the source
        learned = 100 * rates[best if number == worst else number]
        assert scores[number] == pytest.approx(learned + 100 * float(row[5]), rel=1e-5)
        if number != worst:
            assert row[5] == first[number][5]
    last = load_checkpoint(f"mine/member_{worst:04}/ckpt/ckpt_last.pth.tar")
    assert last["policy"]["schedules"] == {"seed": 7 + worst}  # its counts stay its own
    assert last["collector"] == {"steps": 400}


def test_the_best_config_has_the_values_of_the_policy_as_a_schedule() -> None:
    population = create()
    population.run()
    best = max(population.members, key=lambda member: member.score or 0.0)
    saved = read_saved_run("mine/best_config.py")
    found, numbers = saved.main_config["policy"]["learn"]["learning_rate"], [*best.history, best.values]
    if isinstance(found, dict):
        assert found["type"] == "piecewise"
        assert found["points"] == step_points([100, 200, 300, 400], [each[RATE] for each in numbers])
    else:
        assert {each[RATE] for each in numbers} == {found}
    assert best.score == pytest.approx(sum(100 * rate(each) for each in numbers), rel=1e-4)
    assert saved.limits["max_env_step"] == 400


def test_a_schedule_changes_at_the_marks() -> None:
    points = [[0, 1.0], [9, 1.0], [10, 3.0], [29, 3.0], [30, 2.0]]  # between 10 and 29 it stays 3
    assert step_points([10, 20, 30, 40], [1.0, 3.0, 3.0, 2.0]) == points


@pytest.mark.parametrize("saves", [True, False])
def test_a_signal_interrupts_and_the_same_command_continues(
    saves: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not saves:  # the signal arrives before a run handles it
        monkeypatch.setattr(Learner, "send_signal", lambda self, signum: setattr(self, "_status", 128 + signum))
    assert create(output="whole").run() == 0
    FakeRun.reset()
    FakeRun.look = lambda count: os.kill(os.getpid(), signal.SIGTERM) if count == 13 else None  # in the second round
    assert create().run() == 128 + signal.SIGTERM
    begun = len(FakeRun.started)
    assert "failed" not in capsys.readouterr().err
    FakeRun.look = lambda count: None
    assert create().run() == 0
    whole, own = (Path(folder, "population.csv").read_text() for folder in ("whole", "mine"))
    assert whole == own
    assert begun < 20
    assert len(FakeRun.started) == 20 + 1  # one of them twice
    assert create().run() == 0  # nothing is left to do
    assert len(FakeRun.started) == 20 + 1


def test_a_process_killed_before_the_copies_makes_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert create(output="whole").run() == 0
    with monkeypatch.context() as killed:
        killed.setattr("ding_lite.sweep.population.copy_policy", _die)
        with pytest.raises(KeyboardInterrupt):
            create().run()
    assert len(FakeRun.started) == 20 + 5
    assert create().run() == 0
    assert Path("whole/population.csv").read_text() == Path("mine/population.csv").read_text()


def _die(source: str, into: str) -> None:
    raise KeyboardInterrupt


def test_a_member_that_fails_takes_over_another_policy(capsys: pytest.CaptureFixture[str]) -> None:
    FakeRun.failing = {"member_0002 200"}
    assert create().run() == 0
    assert "member 2 failed: it is unlucky" in capsys.readouterr().err
    table = rows()
    assert table[7][3] == ""  # round 2, member 2
    assert table[12][4] != ""  # round 3: it has a source
    assert float(table[12][3]) > 0


def test_a_population_all_of_whose_members_fail_ends() -> None:
    FakeRun.failing = {f"member_{number:04} 200" for number in range(5)}
    with pytest.raises(UserError, match="All members failed, the first one with: it is unlucky"):
        create().run()


def test_a_goal_that_is_reached_ends_the_population(monkeypatch: pytest.MonkeyPatch) -> None:
    end = Learner._end
    monkeypatch.setattr(Learner, "_end", lambda self, reason, status: end(self, "stop_value", status))
    assert create().run() == 0
    assert len(rows()) == 5


def test_another_problem_is_refused_in_the_same_directory() -> None:
    create().run()
    with pytest.raises(UserError, match=r"The sweep 'mine' was started with members 5, and now has 6: .* -o DIR"):
        create(trials=6)
    with pytest.raises(UserError, match="was started with rounds 4"):
        create(rounds=5)


def test_two_processes_do_not_train_the_same_population() -> None:
    first, second = create(), create()

    def start_another(count: int) -> None:
        with pytest.raises(UserError, match="Another process trains the population in 'mine'"):
            second.run()

    FakeRun.look = start_another
    assert first.run() == 0


@pytest.mark.parametrize(
    ("words", "options", "text"),
    [
        ((), {"limited": False}, "give max_env_step=N"),
        ((), {"seeds": [1, 2]}, "takes one seed"),
        ((), {"trials": 1}, "needs two members"),
        ((), {"rounds": 1}, "two rounds or more, got 5 and 1"),
        ((), {"storage": "sqlite:///one.db"}, "leave out --storage"),
        (("policy.model.encoder_hidden_size_list=[64],[32]",), {}, "cannot vary policy.model.encoder_hidden_size_list"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match="--sampler pbt") as error:
        create(*words, **options)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("kind", "value", "near"),
    [
        (FloatDistribution(1e-4, 1.0, log=True), 0.01, {0.008, 0.012}),
        (FloatDistribution(0.0, 1.0), 0.9, {0.72, 1.0}),  # 1.08 is above the range
        (IntDistribution(1, 100), 50, {40, 60}),
        (IntDistribution(1, 9), 2, {1, 3}),  # 0.8 and 1.2 times 2 are 2, so it changes by a step
        (FloatDistribution(0.5, 0.9, step=0.1), 0.6, {0.5, 0.7}),
        (CategoricalDistribution([16, 32, 64]), 32, {16, 64}),
        (CategoricalDistribution([16, 32, 64]), 64, {32, 64}),
    ],
)
def test_exploring_changes_a_value_a_little_or_draws_it_anew(kind: Any, value: Any, near: set[float]) -> None:
    rng = np.random.default_rng(0)
    found = [explore(value, kind, rng) for _ in range(4000)]
    close = [any(each == pytest.approx(other) for other in near) for each in found]
    expected = 0.75 + 0.25 * np.mean(
        [any(each == pytest.approx(other) for other in near) for each in (draw(kind, rng) for _ in range(4000))]
    )
    assert np.mean(close) == pytest.approx(expected, abs=0.04)  # four standard deviations of both means: 0.03
    assert all(isinstance(each, type(value)) for each in found)
    if not isinstance(kind, CategoricalDistribution):
        numbers = [float(str(each)) for each in found]
        assert kind.low <= min(numbers) < max(numbers) <= kind.high


def test_a_logarithmic_range_is_drawn_by_orders_of_magnitude() -> None:
    rng = np.random.default_rng(0)
    found = [draw(FloatDistribution(1e-4, 1.0, log=True), rng) for _ in range(4000)]
    assert np.mean(np.array(found) < 1e-2) == pytest.approx(0.5, abs=0.03)
    assert {draw(IntDistribution(1, 3), rng) for _ in range(100)} == {1, 2, 3}


@pytest.mark.slow
@pytest.mark.parametrize("together", [[], ["--together"]])
def test_a_population_of_real_runs_learns_with_the_values_of_each_round(tmp_path: Path, together: list[str]) -> None:
    words = ["sweep", "-c", str(CONFIG), "policy.learn.learning_rate=0.0005..0.005:log", "--sampler", "pbt"]
    words += ["--trials", "3", "--rounds", "3", "-s", "0", "-o", "pbt", *together]
    run_forked(["-m", "ding_lite", *words, *SHORT[1:], "max_env_step=480", "env.stop_value=None"], 500)
    state = json.loads((tmp_path / "pbt" / "population.json").read_text())
    assert state["round"] == 3
    for member in state["members"]:
        folder = tmp_path / member["directory"]
        records = metrics(folder)
        assert [record["envstep"] for record in records if "eval/return_mean" in record][-1] == 480
        optimizer = load_checkpoint(str(folder / "ckpt" / "ckpt_last.pth.tar"))["policy"]["optimizer"]
        assert f"{member['values'][RATE]}" in str(optimizer)
        assert "resumed from" in (folder / "log" / "log.txt").read_text()


def test_pbt_is_a_sampler_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    line = mistake(capsys, "sweep", "-c", str(CONFIG), SPACE, "--sampler", "pbt")
    assert "--sampler pbt compares runs at parts of their limit" in line

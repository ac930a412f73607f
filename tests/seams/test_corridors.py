"""What a user of gymnasium expects of an own environment: its id, its infos, its options, its attributes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.cli.main import main
from ding_lite.entry import Callback, serial_pipeline
from ding_lite.envs import EnvError, check_env, create_vector_env, restorable
from ding_lite.run.callbacks import WatchedRun
from ding_lite.utils import ConfigError, UserError
from tests.distributed.launcher import ROOT, run_forked
from tests.distributed.on_ranks import call_on_ranks
from tests.envs.test_vector_env import env_config
from tests.policy.helpers import parameter_hash
from tests.run.helpers import metrics, result
from tests.seams import corridors

ID = f"{corridors.__name__}:Corridor-v0"
CREATE = dict(env=dict(type="gymnasium"), policy=dict(type="dqn"))


def train(*overrides: str, callbacks: tuple[Callback, ...] = (), steps: int = 240) -> Any:
    env = dict(env_id=ID, collector_env_num=4, evaluator_env_num=2, n_evaluator_episode=4, info_keys=["is_success"])
    main = dict(exp_name="run", env=env, policy=dict(learn=dict(batch_size=16)))
    words = ["policy.learn.learner.hook.log_show_after_iter=10", *overrides]
    return serial_pipeline((main, CREATE), seed=0, max_env_step=steps, overrides=words, callbacks=callbacks)


LOADED = """
import ding_lite, json
import numpy as np
from ding_lite.cli.main import main
agent = ding_lite.load("run")
print(json.dumps(agent.act(np.array([[0.0, 0.0, 0.0, 2.0], [0.0, 2.0, 1.5, 2.0]])).tolist()))
main(["export", "run", "-o", "run.pt2"])
for needs in (agent.make_env, agent.evaluate):
    try:
        needs()
    except ding_lite.utils.ConfigError as error:
        print(error)
"""


def test_an_agent_acts_and_is_exported_without_the_modules_of_its_environment(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    source = Path(corridors.__file__).read_text()
    wrapper = "class Wrapper(gymnasium.Wrapper):\n    pass\n"
    (tmp_path / "away/gone.py").write_text(source.replace("Corridor-v0", "Gone-v0") + wrapper)
    words = ["-c", "config.py", "max_env_step=80", "env.frame_stack=2"]
    (tmp_path / "config.py").write_text(
        "main_config = dict(exp_name='run', env=dict(env_id='gone:Gone-v0', n_evaluator_episode=8, "
        "wrappers=['gone:Wrapper']))\n"
        "create_config = dict(env=dict(type='gymnasium'), policy=dict(type='ppo'))\n"
    )
    done = run_forked(["-m", "ding_lite", *words], env={"PYTHONPATH": f"{ROOT}:{tmp_path}/away"})
    (tmp_path / "away").rename(tmp_path / "moved")
    done = run_forked(["-c", LOADED], status=None)
    actions, _, *errors = done.stdout.splitlines()
    state = np.array([[0.0, 0.0, 0.0, 2.0], [0.0, 2.0, 1.5, 2.0]], np.float32)
    module = torch.export.load(tmp_path / "run.pt2").module()
    assert json.loads(actions) == module(torch.from_numpy(state)).tolist()
    assert len(errors) == 2
    assert all("cannot be built" in error and "cannot import 'gone'" in error for error in errors)


class Totals(Callback):
    """Sums what the collects report."""

    def __init__(self) -> None:
        self.sums = dict.fromkeys(("info/is_success", "info/is_success/episodes", "return", "episode"), 0.0)
        self.evaluations: list[tuple[float, float]] = []

    def after_collect(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
        self.sums = {name: total + figures[name] for name, total in self.sums.items()}

    def after_evaluation(self, run: WatchedRun, info: Mapping[str, Any]) -> None:
        self.evaluations.append((info["info/is_success"], info["return_mean"]))


def count_successes() -> None:
    """Run on each of two ranks. An episode's return is 1 if it succeeds, else 0."""
    totals = Totals()
    train("policy.multi_gpu=True", callbacks=(totals,))
    train("policy.multi_gpu=True", "max_seconds=2", "exp_name=timed", steps=10**9)
    success, reported, total, episodes = totals.sums.values()
    assert 0 < success == total < reported == episodes
    assert totals.evaluations
    assert all(rate == mean for rate, mean in totals.evaluations)


def test_ranks_agree_on_the_means_of_info_and_on_the_limit_of_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    call_on_ranks(count_successes, cwd=tmp_path)
    records = metrics(tmp_path / "run")
    for kind in ("collect", "eval"):
        found = [record for record in records if f"{kind}/return_mean" in record]
        assert found
        assert all(record[f"{kind}/info/is_success"] == record[f"{kind}/return_mean"] for record in found)
    told = result(tmp_path / "run")
    assert told["eval/info/is_success"] == told["eval_return_mean"]
    timed = result(tmp_path / "timed")
    assert timed["stop_reason"] == "max_seconds"
    assert timed["seconds"] >= 2
    with pytest.raises(SystemExit, match="2"):
        main(["resume", "timed"])
    assert "change the limit, such as max_seconds=" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("missing", "no episode of this evaluation had info"),
        ("text", "expected a number"),
        ("nested", "info['nested'] is a dict"),
    ],
)
def test_an_info_without_a_number_is_reported(key: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        train(f"env.info_keys=['{key}']", steps=60)
    except EnvError as error:
        print(error, file=sys.stderr)
    assert message in capfd.readouterr().err


GRAVITY = {11: 30.0, 20: 5.0, 41: 80.0, 47: 2.0}  # of CartPole, by the step before which it changes


def play(env: Any, steps: range, actions_TN: np.ndarray) -> list[np.ndarray]:
    rows = []
    for t in steps:
        if t in GRAVITY:
            env.set_attr("gravity", GRAVITY[t])
        rows.append(np.array(env.step(actions_TN[t])[0]))
    return rows


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_attributes_change_in_the_middle_of_episodes_and_are_restored(manager: str) -> None:
    cfg = env_config(env_id="CartPole-v1", manager={"type": manager})
    actions_TN = np.random.default_rng(0).integers(2, size=(80, 3))

    def make() -> Any:
        return create_vector_env(cfg, 3, 7, training=True)

    with closing(make()) as env, closing(make()) as resumed:
        env.reset(seed=[1, 2, 3])
        play(env, range(50), actions_TN)
        resumed.load_state_dict(env.state_dict())
        rest = range(50, 80)
        whole, again = play(env, rest, actions_TN), play(resumed, rest, actions_TN)
        np.testing.assert_array_equal(whole, again)
        resumed.load_state_dict(env.state_dict())  # by now the changes are older than the running episodes
        np.testing.assert_array_equal(play(env, range(9), actions_TN), play(resumed, range(9), actions_TN))
        env.set_attr("gravity", 9.8)
        pair = [np.array(play(one, range(9), actions_TN)) for one in (env, resumed)]
        assert (pair[0] != pair[1]).any()
        with pytest.raises(UserError, match=r"no attribute 'gravty'\. Did you mean 'gravity'"):
            env.set_attr("gravty", 1.0)
        with pytest.raises(UserError, match="expected 3 values, one for each environment, got 2"):
            env.set_attr("gravity", [1.0, 2.0])
        env.step(actions_TN[0])


@pytest.mark.parametrize("killed_at", range(3))
def test_a_worker_that_is_replaced_gets_the_attributes_and_a_new_episode(killed_at: int) -> None:
    cfg = env_config(env_id="CartPole-v1", manager={"type": "subprocess", "max_retry": 1})  # a second failure raises
    env: Any
    with closing(create_vector_env(cfg, 2, 7, training=True)) as env:
        env.reset(seed=[1, 1])
        for place, gravity in enumerate(([500.0, 500.0], [1000.0, 1000.0], None)):
            if place == killed_at:
                os.kill(env.env._workers[1].pid, signal.SIGKILL)
            if gravity:
                env.set_attr("gravity", gravity)
        _, _, _, truncated_N, _ = env.step(np.ones(2, int))
        assert truncated_N.tolist() == [False, True]
        assert not env.step(np.ones(2, int))[3].any()
        env.reset(seed=[1, 1])
        for _ in range(5):
            obs, *_ = env.step(np.ones(2, int))
        np.testing.assert_array_equal(obs[0], obs[1])


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_each_environment_changes_a_value_of_its_own(manager: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restorable, "JOURNAL_LIMIT", 4)  # the change is older than what can be replayed
    cfg, visits = env_config(env_id="Corridor-v0", manager={"type": manager}), np.zeros(1)
    env: Any
    resumed: Any
    with closing(create_vector_env(cfg, 2, 7, training=True)) as env:
        env.reset(seed=[1, 2])
        env.set_attr("visits", visits)
        env.set_attr("length", 50.0)
        for _ in range(6):
            env.step(np.zeros(2, int))
        assert visits == 0
        with closing(create_vector_env(cfg, 2, 7, training=True)) as resumed:
            obs, _, restored_N = resumed.load_state_dict(env.state_dict())
            assert not restored_N.any()
            assert obs[:, 1].tolist() == [50.0, 50.0]
        if manager == "base":
            assert [one.unwrapped.visits.item() for one in env.env.envs] == [6, 6]


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_every_episode_starts_with_the_reset_options(manager: str) -> None:
    cfg = env_config(env_id="Corridor-v0", manager={"type": manager}, reset_options={"start": 1.5})
    assert check_env(cfg).observation_space.shape == (2,)
    with closing(create_vector_env(cfg, 2, 7, training=False)) as env:
        starts = [env.reset(seed=3)[0][:, 0].copy()]
        for _ in range(12):
            obs, _, terminated_N, _, _ = env.step(np.ones(2, int))  # wins in the first step
            assert terminated_N.all()
            starts.append(obs[:, 0].copy())
    assert (np.array(starts) == 1.5).all()


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_all_training_episodes_of_an_environment_have_its_seed_if_asked(manager: str) -> None:
    cfg = env_config(env_id="CartPole-v1", manager={"type": manager}, dynamic_seed=False, max_episode_steps=3)

    def starts(training: bool) -> np.ndarray:
        with closing(create_vector_env(cfg, 2, 7, training)) as env:
            rows = [env.reset(seed=3)[0].copy()]
            for _ in range(3):
                rows += [env.step(np.ones(2, int))[0].copy() for _ in range(3)][2:]
        return np.array(rows)

    first_T2 = starts(True)
    assert (first_T2 == first_T2[0]).all()
    assert (first_T2[0, 0] != first_T2[0, 1]).all()
    assert (starts(False)[0] == first_T2[0]).all()
    assert len(np.unique(starts(False)[:, 0, 0])) == 4  # evaluations play different episodes


@pytest.mark.parametrize("given", [{"reset_options": {"low": -0.1}}, {"dynamic_seed": False}])
def test_an_engine_refuses_what_only_single_environments_take(given: dict[str, Any]) -> None:
    (key,) = given
    with pytest.raises(ConfigError, match=rf"^env.{key}: the engine of env_manager.type 'env_pool' only takes"):
        check_env(env_config(env_id="CartPole-v1", manager={"type": "env_pool"}, **given))


def test_the_first_evaluations_may_be_left_out(tmp_path: Path) -> None:
    freq = "policy.eval.evaluator.eval_freq=40"
    train(freq, "policy.eval.evaluator.eval_after=90", "exp_name=late")
    train(freq)
    found = {}
    for name in ("late", "run"):
        found[name] = [line["train_iter"] for line in metrics(tmp_path / name) if "eval/return_mean" in line]
    assert found["run"][0] == 0
    assert found["late"] == [90, 132, 162]  # 40 iterations later, at the end of a collect; the final policy


class Longer(Callback):
    """Lengthens the corridor of both kinds of environments with every second collect."""

    def __init__(self) -> None:
        self.count = 0

    def after_collect(self, run: WatchedRun, figures: Mapping[str, float]) -> None:
        self.count += 1
        if self.count % 2 == 0:
            for part in (run.collector, run.evaluator):
                part.set_attr("length", 2.0 + self.count / 20)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def test_a_resumed_curriculum_is_the_one_that_was_never_stopped(tmp_path: Path) -> None:
    words = ("env.info_keys=['length']", "policy.eval.evaluator.eval_freq=1000000")
    whole = train(*words, "exp_name=whole", callbacks=(Longer(),), steps=400)
    train(*words, callbacks=(Longer(),), steps=220)
    resumed = train(*words, "policy.learn.resume_training=True", callbacks=(Longer(),), steps=400)
    assert parameter_hash(whole.model) == parameter_hash(resumed.model)
    lengths = [result(tmp_path / name)["eval/info/length"] for name in ("whole", "run")]
    assert lengths[0] == lengths[1] == pytest.approx(7.0)  # 100 collects of four steps


class OnStart(Callback):
    def __init__(self, value: Any) -> None:
        self.value = value

    def on_start(self, run: WatchedRun) -> None:
        run.collector.set_attr("length", self.value)


@pytest.mark.parametrize(
    "value", [object(), np.array(["a"]), np.array([None]), {"a": np.ones(2, ">f8")}, np.longdouble(1)]
)
def test_values_that_no_checkpoint_can_hold_are_refused(value: Any) -> None:
    with pytest.raises(UserError, match=r"expected numbers, texts, arrays of numbers.*got: \w+"):
        train(callbacks=(OnStart(value),))


def test_a_checkpoint_without_environments_keeps_the_attributes(tmp_path: Path) -> None:
    keys = "env.info_keys=['length']"
    train(keys, callbacks=(OnStart(3.0),))
    path = "policy.learn.learner.hook.load_ckpt_before_run=run/ckpt/ckpt_best.pth.tar"
    train(keys, path, "policy.learn.resume_training=True", "exp_name=more", steps=480)
    lines = metrics(tmp_path / "more")
    assert {line["collect/info/length"] for line in lines if "collect/info/length" in line} == {3.0}

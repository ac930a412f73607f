"""Learning from a data set, without playing: what is learned, counted, written, and refused."""

from __future__ import annotations

import copy
import inspect
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from ding_lite import entry
from ding_lite.cli.main import main
from ding_lite.entry import serial_pipeline_bc, serial_pipeline_offline
from ding_lite.offline.files import write_minari
from ding_lite.policy import BCPolicy
from ding_lite.utils import POLICY_REGISTRY, ConfigError, UserError
from tests.dizoo.extras import needs
from tests.offline.data_sets import offline_pair, record_cartpole, run_offline
from tests.run.helpers import curves, metrics, result
from tests.survival.common import differences, points, states

PER_EPOCH = 19  # batches of 32 of 600 transitions, the last of 24


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.npz"
    record_cartpole(path)
    return path


@pytest.fixture(autouse=True)
def data(recorded: Path, empty_directory: Path) -> None:
    """Put the data set into the current directory."""
    os.link(recorded, empty_directory / "data.npz")


class WatchedBC(BCPolicy):
    """Remembers the observations that it learned from, and sends itself a signal at an iteration."""

    seen: ClassVar[list[Tensor]] = []
    left: ClassVar[int] = -1

    def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        self.seen.append(batch["obs"].clone())
        WatchedBC.left -= 1
        if WatchedBC.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return super()._forward_learn(batch)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], dict[str, Any]]:
    monkeypatch.setitem(POLICY_REGISTRY, "watched_bc", WatchedBC)
    monkeypatch.setattr(WatchedBC, "seen", [])
    monkeypatch.setattr(WatchedBC, "left", -1)
    return offline_pair("watched_bc")


# -- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_learns_from_every_transition_once_an_epoch_and_counts_iterations(
    watched: tuple[dict[str, Any], dict[str, Any]], capfd: pytest.CaptureFixture[str]
) -> None:
    before = copy.deepcopy(watched)
    run_offline("env.stop_value=None", input_cfg=watched, seed=0)
    assert repr(watched) == repr(before)
    sizes = [len(obs) for obs in WatchedBC.seen]
    assert sizes == ([32] * 18 + [24]) * 6
    everything = np.load("data.npz")["obs"].astype(np.float32)
    expected = Counter(row.tobytes() for row in everything)
    orders = set()
    for epoch in range(6):
        rows = torch.cat(WatchedBC.seen[epoch * PER_EPOCH : (epoch + 1) * PER_EPOCH]).numpy()
        assert Counter(row.tobytes() for row in rows) == expected
        orders.add(rows.tobytes())
    assert len(orders) == 6  # drawn anew each time

    told = result(Path("run"))
    assert (told["stop_reason"], told["epoch"], told["train_iter"]) == ("train_epoch", 6, 6 * PER_EPOCH)
    assert (told["envstep"], told["episode_count"]) == (0, 0)
    lines = metrics(Path("run"))
    assert {line["envstep"] for line in lines} == {0}
    trained = [line for line in lines if "train/total_loss" in line]
    assert [line["train_iter"] for line in trained] == list(range(7, 6 * PER_EPOCH + 1, 7))
    # iteration i learns from batch i - 1 of the run, i - 1 // 19 epochs are over by then
    assert [line["data/epoch"] for line in trained] == [(i - 1) // PER_EPOCH for i in range(7, 6 * PER_EPOCH + 1, 7)]
    shares = [line["data/wait_share"] for line in trained]
    assert all(0 <= share < 1 for share in shares)
    assert max(shares) > 0  # the first batch was waited for
    losses = [line["train/total_loss"] for line in trained]
    assert np.mean(losses[-4:]) < 0.6 * losses[0]
    assert [line["train_iter"] for line in lines if "eval/return_mean" in line] == [0, 25, 50, 75, 100, 114]
    shown, _ = points(Path("run"))
    assert {step for step, tag, _ in shown if tag == "train/total_loss"} == {line["train_iter"] for line in trained}

    said = capfd.readouterr().err
    for line in (
        "    data set  data.npz: 600 transitions, 600 a rank; 1 loader process(es) a rank",
        "       batch  32 a rank, 32 global, 6 epochs",
        "environments  2 evaluate",
        "ended (train_epoch) at iteration 114\n",
    ):
        assert line in said
    assert "env step" not in said


def test_the_same_seed_gives_the_same_parameters_whatever_loads_the_data() -> None:
    workers = "policy.learn.learner.dataloader.num_workers"
    first, second = (run_offline(f"{workers}={n}", "env.stop_value=None", seed=3) for n in (0, 2))
    assert not differences(first.model.state_dict(), second.model.state_dict())


class Counting(gymnasium.Wrapper):
    made: ClassVar[list[str]] = []

    def __init__(self, cfg: str) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.made.append(cfg)


@pytest.mark.parametrize("collectors", [[], ["collect"] * 3])
def test_environments_are_built_for_evaluation_alone(collectors: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "made", [])
    setting = (Counting, collectors, ["evaluate"] * 2)
    run_offline("env.stop_value=None", env_setting=setting, max_train_iter=5)
    assert Counting.made == ["evaluate"] * 3  # one of them to look at


def test_a_callback_cannot_change_environments_that_collect() -> None:
    class Wrong(entry.Callback):
        def on_start(self, run: Any) -> None:
            run.evaluator.set_attr("gravity", 5.0)
            run.collector.set_attr("gravity", 5.0)

    with pytest.raises(UserError, match=r"from no environments: use run\.evaluator\.set_attr"):
        run_offline(callbacks=[Wrong()])


# -- bc ---------------------------------------------------------------------------------------------------------------


def test_bc_takes_the_data_set_as_an_argument_and_tells_whether_it_converged() -> None:
    main, create = offline_pair()
    del main["policy"]["collect"]
    policy, converged = serial_pipeline_bc((main, create), 0, "data.npz", overrides=["env.stop_value=50"])
    assert isinstance(policy, BCPolicy)
    assert converged
    assert result(Path("run"))["stop_reason"] == "stop_value"
    assert serial_pipeline_bc(offline_pair(), 0, max_iter=3, overrides=["env.stop_value=1000"])[1] is False


def test_signatures_begin_as_those_of_di_engine() -> None:
    positional = {
        serial_pipeline_bc: ["input_cfg", "seed", "data_path", "model", "max_iter"],
        serial_pipeline_offline: ["input_cfg", "seed", "env_setting", "model", "max_train_iter"],
    }
    for pipeline, names in positional.items():
        parameters = inspect.signature(pipeline).parameters.values()
        assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == names


# -- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning:minari")  # it misses an author and more
def test_a_config_with_d4rls_names_learns_from_minaris_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("mujoco")
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", os.getcwd())
    env, rows = gymnasium.make("Hopper-v5"), list[dict[str, Any]]()
    env.action_space.seed(0)
    obs, ended = env.reset(seed=0)[0], False
    while len(rows) < 100 or not ended:
        action = env.action_space.sample()
        next_obs, reward, done, truncated, _ = env.step(action)
        ended = done or truncated
        rows.append({"obs": obs, "action": action, "reward": reward, "next_obs": next_obs, "done": done})
        rows[-1] |= {"traj_flag": ended, "unfinished": False}
        obs = env.reset()[0] if ended else next_obs
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "env": "Hopper-v5"}
    write_minari("mujoco/hopper/medium-v0", columns, spaces, {"policy": "random"})
    learn = dict(data_path=None, train_epoch=1, batch_size=16)
    evaluated = dict(evaluator_env_num=1, n_evaluator_episode=1, collector_env_num=1)
    main = dict(
        exp_name="hopper_medium_td3_bc",
        env=dict(env_id="hopper-medium-v2", use_act_scale=True, reward_norm="iql_locomotion", **evaluated),
        policy=dict(cuda=False, learn=learn, collect=dict(data_type="d4rl", data_path=None)),
    )
    create = dict(
        env=dict(type="d4rl", import_names=["dizoo.d4rl.envs.d4rl_env"]),
        env_manager=dict(cfg_type="BaseEnvManagerDict", type="base"),
        policy=dict(type="td3_bc"),
        replay_buffer=dict(type="naive"),
    )
    serial_pipeline_offline((main, create), seed=0)
    told = result(Path("hopper_medium_td3_bc"))
    assert (told["stop_reason"], told["epoch"]) == ("train_epoch", 1)


@pytest.mark.parametrize("left", [19, pytest.param(70, marks=pytest.mark.slow)])
def test_a_terminated_run_saves_and_goes_on_as_if_nothing_had_been(
    watched: tuple[dict[str, Any], dict[str, Any]], left: int
) -> None:
    words = ["env.stop_value=None", "policy.learn.learner.hook.save_ckpt_after_iter=20"]
    run_offline(*words, "exp_name=whole", input_cfg=watched, seed=1)
    WatchedBC.left = left
    with pytest.raises(SystemExit) as end:
        run_offline(*words, input_cfg=watched, seed=1)
    assert end.value.code == 128 + signal.SIGTERM
    told = result(Path("run"))
    assert (told["stop_reason"], told["signal"]) == ("interrupted", signal.SIGTERM)
    assert told["train_iter"] < 114
    WatchedBC.seen.clear()
    run_offline(*words, "policy.learn.resume_training=True", input_cfg=watched, seed=1)
    assert len(WatchedBC.seen) == 114 - told["train_iter"]
    whole, run = states(Path("whole")), states(Path("run"))
    assert not differences(whole, run)
    assert curves(Path("whole")) == curves(Path("run"))


def test_what_came_after_the_last_checkpoint_is_repeated() -> None:
    words = ["env.stop_value=None", "policy.learn.learner.hook.save_ckpt_after_iter=20"]
    run_offline(*words, "exp_name=whole", seed=1, kind="discrete_cql")
    run_offline(*words, seed=1, kind="discrete_cql", max_train_iter=57)
    newest = Path("run", "ckpt", "iteration_57.pth.tar")
    newest.write_bytes(newest.read_bytes()[:-100])  # what is left is of iteration 40
    run_offline(*words, "policy.learn.resume_training=True", seed=1, kind="discrete_cql")
    assert not differences(states(Path("whole")), states(Path("run")))
    assert curves(Path("whole")) == curves(Path("run"))


def test_the_command_line_goes_on_with_more_epochs(capfd: pytest.CaptureFixture[str]) -> None:
    run_offline("env.stop_value=None", "policy.learn.train_epoch=2", seed=0)
    for words, told_why in {
        (): "has finished (train_epoch): to train further, change the limit, such as policy.learn.train_epoch=4.",
        ("policy.learn.train_epoch=2",): "has reached policy.learn.train_epoch=2 already: to train further, give more",
    }.items():
        with pytest.raises(SystemExit) as end:
            main(["resume", "run", *words])
        assert end.value.code == 2
        assert told_why in capfd.readouterr().err
    main(["resume", "run", "policy.learn.train_epoch=3"])
    told = result(Path("run"))
    assert (told["stop_reason"], told["epoch"], told["train_iter"]) == ("train_epoch", 3, 3 * PER_EPOCH)


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "words", "told"),
    [
        ("bc", ["policy.collect.data_path=", "policy.collect.data_type=hdf5"], r"policy\.collect\.data_path is empty"),
        ("bc", ["policy.collect.data_path=gone.npz"], r"'gone\.npz' does not exist"),
        (
            *("discrete_cql", ["policy.collect.data_path=bad.npz", "policy.learn.ignore_done=True"]),
            r"policy\.learn\.ignore_done=True .*'bad\.npz' has no column next_obs: add it",
        ),
    ],
)
def test_what_is_wrong_with_the_data_is_said_before_anything_is_started(kind: str, words: list[str], told: str) -> None:
    np.savez("bad.npz", **{key: column for key, column in np.load("data.npz").items() if key != "next_obs"})
    with pytest.raises(ConfigError, match=told):
        run_offline(*words, kind=kind)
    assert not Path("run").exists()

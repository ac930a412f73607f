"""Whole short runs of CartPole: what they write, when they stop, and that they can be repeated and resumed."""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

from ding_lite import load
from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.run.experiment import Experiment
from ding_lite.run.setup import policy_process, prepare_run
from ding_lite.utils import ConfigError
from tests.distributed.launcher import run_forked, run_ranks
from tests.policy.helpers import parameter_hash
from tests.run.helpers import SHORT, STEPS, Interrupts, last_checkpoint, metrics, pair, result, run
from tests.toys import Toy


def test_a_run_leaves_its_config_checkpoints_metrics_events_and_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = pair()
    policy = run("policy.cuda=True", input_cfg=mine)
    assert mine == pair()  # the user's config is not modified
    folder = tmp_path / "run"
    text = (folder / "log" / "log.txt").read_text()
    for words in ("64 a rank, 64 global", "8 env steps a rank, 8 global", "33,923", "seed 0", "ckpt_last.pth.tar"):
        assert words in text
    assert text.count("parameters") == 1
    assert text.count("no GPU is available: training on the CPU") == (not torch.cuda.is_available())
    shown = capsys.readouterr().err
    assert all(line.split(" ", 3)[-1] in shown for line in text.splitlines() if " INFO " in line)
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    events = {file for file in files if file.startswith("log/serial/")}
    assert len(events) == 1
    checkpoints = {"ckpt_best", "ckpt_last", "iteration_0", "iteration_160", "iteration_160.rank_0"}
    others = {"total_config.py", "result.json", "metrics.jsonl", "origin.jsonl", "log/log.txt", "job.json"}
    assert files - events == others | {f"ckpt/{name}.pth.tar" for name in checkpoints}
    state = last_checkpoint(folder)
    assert parameter_hash(state["policy"]["model"]) == parameter_hash(policy.model)
    # 8 steps a collect, 5 iterations each from the ninth on, where 64 + 8 samples are there (the newest row is not one)
    iterations = 5 * (STEPS // 8 - 8)
    told = result(folder)
    keys = ("stop_reason", "envstep", "train_iter", "world_size", "seed")
    assert [told[key] for key in keys] == ["max_env_step", STEPS, iterations, 1, 0]
    assert told["episode_count"] > 0
    assert told["eval_return_best"] >= told["eval_return_mean"] > 0
    lines = metrics(folder)
    trained = [line for line in lines if "train/total_loss" in line]
    assert [line["train_iter"] for line in trained] == list(range(20, iterations + 1, 20))
    assert all(line["train/total_loss"] > 0 and line["collect/env_step_per_second"] > 0 for line in trained)
    judged = [line for line in lines if "eval/return_mean" in line]
    assert [line["train_iter"] for line in judged] == [0, 100, iterations]
    assert [line["envstep"] for line in lines] == sorted(line["envstep"] for line in lines)


def test_the_saved_config_runs_again_and_gives_the_same_run(tmp_path: Path) -> None:
    expected = run("policy.learn.batch_size=32", max_env_step=160, seed=5)
    run_forked(["run/total_config.py"], 120)
    (again,) = (path for path in tmp_path.iterdir() if path.name.startswith("run_"))
    assert parameter_hash(last_checkpoint(again)["policy"]["model"]) == parameter_hash(expected.model)
    first, second = ({k: v for k, v in result(f).items() if k != "seconds"} for f in (tmp_path / "run", again))
    assert first == second


# -- limits -----------------------------------------------------------------------------------------------------------


def test_random_steps_come_first_and_count(tmp_path: Path) -> None:
    run("policy.random_collect_size=100", max_env_step=120)
    told = result(tmp_path / "run")
    # 13 collects of 8 are the first to give 100; then two more, each of which can be learned from at once
    assert (told["envstep"], told["train_iter"]) == (120, 10)


@pytest.mark.parametrize(
    ("kind", "num_envs", "nproc"),
    [("sac", 6, 1), ("td3", 3, 2), *(pytest.param(kind, 6, 1, marks=pytest.mark.slow) for kind in ("ddpg", "d4pg"))],
)
def test_continuous_policies_take_one_update_for_each_env_step_of_all_ranks(
    tmp_path: Path, kind: str, num_envs: int, nproc: int
) -> None:
    sizes = "policy=dict(random_collect_size=12, learn=dict(batch_size=4))"
    env = f"env=dict(env_id='Pendulum-v1', collector_env_num={num_envs}, evaluator_env_num=1, n_evaluator_episode=1)"
    path = tmp_path / "config.py"
    path.write_text(f"main_config = dict({env}, {sizes})\ncreate_config = dict(policy=dict(type='{kind}'))\n")
    words = ["-m", "ding_lite", "train", "-c", str(path), "exp_name=run", "max_env_step=60", "policy.multi_gpu=True"]
    done = run_ranks([*words, "policy.nstep=1"], nproc, cwd=tmp_path)
    told = result(tmp_path / "run")
    assert (told["envstep"], told["train_iter"]) == (60, 60 - 12 * nproc)
    assert f"4 a rank, {4 * nproc} global, 1 update an env step" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("kind", "size", "more"),
    [  # 16 samples of 4 environments are 4 rows; the newest 3 rows start none, with nstep=3 or unroll_len=4
        ("dqn", 28, ["policy.nstep=3"]),
        ("r2d2", 7, ["policy.unroll_len=4", "policy.burnin_step=2", "policy.collect.n_sample=4"]),
    ],
)
def test_the_smallest_buffer_that_is_accepted_offers_a_batch(tmp_path: Path, kind: str, size: int, more: Any) -> None:
    env = dict(env_id="CartPole-v1", collector_env_num=4, evaluator_env_num=1, n_evaluator_episode=1)
    config = {"env": env}, {"policy": {"type": kind}}
    more = [*more, "policy.learn.batch_size=16"]
    key = "policy.other.replay_buffer.replay_buffer_size"
    run(*more, f"{key}={size}", input_cfg=config, max_env_step=80)
    assert result(tmp_path / "run")["train_iter"] > 0
    with pytest.raises(ConfigError, match=rf"{key}={size - 1} offers at most 12 samples, .* Set at least {size}\."):
        run(*more, f"{key}={size - 1}", input_cfg=config)


@pytest.mark.parametrize("limit", [100, 96])
def test_a_limit_within_the_random_steps_is_refused(tmp_path: Path, limit: int) -> None:
    with pytest.raises(ConfigError, match=f"max_env_step={limit} ends the run before it learns anything"):
        run("policy.random_collect_size=100", max_env_step=limit)
    config = {"env": {"env_id": "CartPole-v1"}}, {"policy": {"type": "impala"}}
    with pytest.raises(ConfigError, match=r"it begins with 800 env steps"):  # 100 sequences of 8
        run("policy.random_collect_size=100", "policy.unroll_len=8", input_cfg=config, max_env_step=limit * 8)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("overrides", "options", "message"),
    [
        (["policy.learn.batch_size=64"], {"max_env_step": 64}, "(max_env_step) after 64 env steps, 56 samples in"),
        (["env.stop_value=5"], {}, "(stop_value) after 0 env steps."),
    ],
)
def test_a_run_without_a_learning_step_says_so(
    capsys: pytest.CaptureFixture[str], overrides: list[str], options: dict[str, int], message: str
) -> None:
    run(*overrides, **options)
    output = "".join(capsys.readouterr())
    assert f"This run learned nothing: it ended {message}" in output
    run("exp_name=other", max_env_step=160)
    assert "learned nothing" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(("kind", "steps"), [("impala", 3 * 64), ("acer", 3 * 64), ("ppo_offpolicy", 3 * 8)])
def test_a_policy_whose_losses_need_what_it_predicted_plays_these_steps_itself(kind: str, steps: int) -> None:
    # 20 sequences of 8 env steps, or 20 env steps, in whole collects of n_sample 8
    cfg = dict(random_collect_size=20, collect=dict(n_sample=8))
    main = dict(exp_name="run", env=dict(env_id="CartPole-v1", collector_env_num=8), policy=cfg)
    words = [] if kind == "ppo_offpolicy" else ["policy.unroll_len=8"]
    limits = {"max_env_step": 1000}
    setup = prepare_run((main, dict(policy=dict(type=kind))), 0, None, None, words, limits=limits)
    with policy_process(setup, 0, "policy") as policy, Experiment(setup, policy) as experiment:
        for bias in (parameter for parameter in experiment.policy.model.parameters() if parameter.shape == (2,)):
            bias.data[0] = 30.0  # the policy always chooses action 0
        ring = experiment.fill_replay_buffer().ring
        assert experiment.counts()["envstep"] == ring.size * 8 == steps
        assert not ring.columns["action"][:steps].any()


def test_checkpoints_come_at_the_asked_frequency_and_the_newest_are_kept(tmp_path: Path) -> None:
    run("policy.learn.learner.hook.save_ckpt_after_iter=60", "policy.learn.learner.hook.keep_ckpt=2")
    names = {file.name for file in (tmp_path / "run" / "ckpt").iterdir()}
    saved = ("iteration_120", "iteration_160")  # not 60
    newest_part = "iteration_160.rank_0"  # it has the replay buffer
    assert names == {f"{name}.pth.tar" for name in ("ckpt_best", "ckpt_last", *saved, newest_part)}


# -- what the user brings ---------------------------------------------------------------------------------------------


def cartpole(cfg: dict[str, Any]) -> gymnasium.Env:
    env = gymnasium.make("CartPole-v1", max_episode_steps=cfg["limit"])
    cfg["built"].append(env)
    return env


@pytest.mark.parametrize("manager", ["base", pytest.param("subprocess", marks=pytest.mark.slow)])
def test_env_setting_says_which_environments_are_built(tmp_path: Path, manager: str) -> None:
    built: dict[int, list[Any]] = {7: [], 12: []}
    collect, judge = ([{"limit": limit, "built": built[limit]}] * number for limit, number in ((7, 4), (12, 2)))
    run(
        f"env.manager.type={manager}",
        "env.n_evaluator_episode=4",
        max_env_step=96,
        env_setting=(cartpole, collect, judge),
    )
    told = result(tmp_path / "run")
    lengths = [line["eval/length_mean"] for line in metrics(tmp_path / "run") if "eval/length_mean" in line]
    assert told["envstep"] == 96
    assert told["episode_count"] >= 96 // 7 - 4
    assert all(7 < length <= 12 for length in lengths)
    if manager == "base":
        assert (len(built[7]), len(built[12])) == (4 + 1, 2)  # one more to look at the spaces


# -- resuming ---------------------------------------------------------------------------------------------------------

LIMITS = {"max_train_iter": 10**10, "max_env_step": 400}
LOAD = "policy.learn.learner.hook.load_ckpt_before_run=run/ckpt/ckpt_last.pth.tar"


def test_a_checkpoint_without_resuming_gives_its_model_alone() -> None:
    policy = run()
    setup = prepare_run(pair(), 1, overrides=[*SHORT, LOAD], limits=LIMITS)
    with policy_process(setup, 0, "policy") as other, Experiment(setup, other) as experiment:
        state = experiment.policy.state_dict()
        assert parameter_hash(experiment.policy.model) == parameter_hash(policy.model)
        assert parameter_hash(state["target_model"]) == parameter_hash(policy.model)
        assert (experiment.learner.train_iter, experiment.collector.envstep) == (0, 0)
        assert not state["optimizer"]["state"]


# -- trouble ----------------------------------------------------------------------------------------------------------


class Fills(gymnasium.Wrapper):
    """From a certain step on, files cannot grow beyond some kilobytes: less than a checkpoint."""

    def __init__(self, cfg: dict[str, Any]) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.cfg = cfg

    def step(self, action: Any) -> Any:
        self.cfg["left"] -= 1
        if self.cfg["left"] == 0:
            self.cfg["before"] = {file.name: file.read_bytes() for file in Path("run/ckpt").iterdir()}
            resource.setrlimit(resource.RLIMIT_FSIZE, (32_000, resource.RLIM_INFINITY))
        return super().step(action)


@pytest.fixture
def room_again() -> Iterator[None]:
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.usefixtures("room_again")
def test_a_full_disk_at_the_end_is_said_and_the_exit_status_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg: dict[str, Any] = {"left": 260}  # steps of all 8 environments
    with pytest.raises(SystemExit) as end:
        run("policy.learn.learner.hook.save_ckpt_after_iter=100", env_setting=(Fills, [cfg] * 8, [{"left": -1}] * 5))
    assert end.value.code == "The last checkpoint was not saved."  # so that the status is 1
    shown = " ".join(capsys.readouterr().err.split())
    assert re.search(r"Cannot save checkpoint '\S*/run/ckpt/iteration_160(\.rank_0)?\.pth\.tar': File too large", shown)
    assert "THE LAST CHECKPOINT WAS NOT SAVED" in shown
    assert "Traceback" not in shown
    assert {file.name: file.read_bytes() for file in Path("run/ckpt").iterdir()} == cfg["before"]
    assert last_checkpoint(tmp_path / "run")["learner"]["train_iter"] == 100
    assert result(tmp_path / "run")["envstep"] == STEPS


@pytest.mark.parametrize(("where", "signum"), [("collect", signal.SIGINT), ("first evaluation", signal.SIGTERM)])
def test_an_interrupted_run_saves_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str, signum: signal.Signals
) -> None:
    cfgs = {"left": 100 if where == "collect" else 20, "signal": signum}
    never = {"left": -1, "signal": signum}
    collect, judge = (cfgs, never) if where == "collect" else (never, cfgs)
    handler = signal.getsignal(signum)
    with pytest.raises(SystemExit) as end:
        run(env_setting=(Interrupts, [collect] * 8, [judge] * 5))
    assert end.value.code == 128 + signum
    assert signal.getsignal(signum) is handler
    told = result(tmp_path / "run")
    assert told["stop_reason"] == "interrupted"
    assert told["envstep"] == (104 if where == "collect" else 0)  # the collect is finished, the evaluation is not
    assert last_checkpoint(tmp_path / "run")["collector"]["envstep"] == told["envstep"]
    shown = capsys.readouterr().err
    assert "checkpoint run/ckpt/ckpt_last.pth.tar\n  continue with ding_lite resume run" in shown
    assert ("best evaluation return" in shown) == (where == "collect")  # else no evaluation has ended
    run("policy.learn.resume_training=True", LOAD, max_env_step=160)  # and it can be resumed


def test_an_interruption_of_the_random_steps_ends_them(tmp_path: Path) -> None:
    collect = {"left": 20, "signal": signal.SIGINT}
    with pytest.raises(SystemExit):
        run("policy.random_collect_size=300", env_setting=(Interrupts, [collect] * 8, [{"left": -1}] * 5))
    assert result(tmp_path / "run")["envstep"] == 24  # the third collect of 8 is finished


def test_a_failing_environment_ends_the_run_with_its_own_error(tmp_path: Path) -> None:
    class Fails(gymnasium.Wrapper):
        def __init__(self, cfg: dict[str, Any]) -> None:
            super().__init__(gymnasium.make("CartPole-v1"))
            self._steps = 0

        def step(self, action: Any) -> Any:
            self._steps += 1
            if self._steps > 2:  # not in the step that tries it before the run
                raise ArithmeticError("the pole is on fire")
            return super().step(action)

    with pytest.raises(ArithmeticError, match="the pole is on fire"):
        run(env_setting=(Fails, [{}] * 8, [{}] * 5))
    assert not (tmp_path / "run" / "result.json").exists()  # it did not end as a run should


METHODS = ("clear", "copy", "get", "items", "keys", "pop", "setdefault", "update", "values")
NAMED = {name: {"items": 1} for name in METHODS}


class Named(Toy):
    """Its observations, infos and arguments have the names of a dict's methods."""

    observation_space = Dict(
        {name: Box(0, 1, (1,), np.float32) for name in METHODS} | {"deep": Dict(items=Discrete(3))}
    )

    def __init__(self, **kwargs: Any) -> None:
        self.action_space = Box(-1, 1, (1,), np.float32) if kwargs.pop("continuous") else Discrete(2)
        assert kwargs == NAMED

    def observe(self) -> Any:
        return {name: np.zeros(1, np.float32) for name in METHODS} | {"deep": {"items": 1}}

    def play(self, action: Any) -> Any:
        return 1.0, False, self.count == 8, {"values": 2.0, "items": 3}


@pytest.mark.parametrize("name", ["dqn", "ppo", "sac"])
def test_parts_of_observations_may_have_the_names_of_a_dicts_methods(name: str) -> None:
    gymnasium.register("Named-v0", Named, kwargs=dict(continuous=name == "sac"))
    env = dict(env_id="Named-v0", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1, kwargs=NAMED)
    env |= dict(info_keys=["values", "items"], reset_options=NAMED, norm_obs=True)
    pipeline = serial_pipeline_onpolicy if name == "ppo" else serial_pipeline
    more: Any = dict(dqn={}, ppo=dict(collect=dict(n_sample=16)), sac=dict(random_collect_size=16))[name]
    for resume in (False, True):
        policy = dict(learn=dict(batch_size=8, resume_training=resume), **more)
        main = dict(exp_name="run", env=env, policy=policy)
        pipeline((main, dict(policy=dict(type=name))), seed=0, max_train_iter=20 + 20 * resume)
    told = load("run").evaluate(2)
    assert (told["returns"], told["info/values"], told["info/items"]) == ([8.0, 8.0], 2.0, 3.0)
    del gymnasium.registry["Named-v0"]


def test_a_run_leaves_nothing_open() -> None:
    run(max_env_step=16)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run(max_env_step=16)
    assert len(os.listdir("/proc/self/fd")) <= before  # fewer, if what earlier tests left has been collected meanwhile

"""Whole runs with `env.norm_obs` and `env.norm_reward`: what is stored, saved, resumed, evaluated and refused."""

from __future__ import annotations

import copy
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.entry import RolloutDataset, collect_demo_data, evaluate_checkpoint, serial_pipeline_offline
from ding_lite.run.experiment import Experiment
from ding_lite.run.setup import policy_process, prepare_run
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.utils import CheckpointError, ConfigError, load_checkpoint, save_checkpoint
from ding_lite.utils.key import merge_keys
from tests.run.test_resume import train
from tests.survival.common import differences

cartpole_dqn_config, cartpole_ppo_config = (
    import_module(f"dizoo.classic_control.cartpole.config.{name}")
    for name in ("cartpole_dqn_config", "cartpole_ppo_config")
)
pendulum_td3_bc_config = import_module("dizoo.classic_control.pendulum.config.pendulum_td3_bc_config")

NORM = ("env.norm_obs=True", "env.norm_reward=True")
LAST = "run/ckpt/ckpt_last.pth.tar"
CONFIGS = {"dqn": cartpole_dqn_config, "ppo": cartpole_ppo_config}


def pair(kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return CONFIGS[kind].main_config, CONFIGS[kind].create_config


def test_evaluation_changes_no_statistics_and_a_checkpoint_plays_like_its_policy() -> None:
    train("ppo", "run", *NORM)
    setup = prepare_run("run/total_config.py", overrides=["exp_name=again"], limits={"max_env_step": 40})
    train_state = load_checkpoint(LAST)
    with policy_process(setup, 0, "policy") as policy, Experiment(setup, policy) as experiment:
        policy = experiment.policy
        policy.load_state_dict(train_state["policy"])
        before = copy.deepcopy(policy.state_dict()["normalizer"])
        _, info = experiment.evaluator.eval(0)
        assert not differences(dict(policy.state_dict()["normalizer"]), dict(before))
        experiment.evaluator.last_iter = 0
        experiment.stop_reason = "max_env_step"
    assert evaluate_checkpoint("run/total_config.py", LAST)["returns"] == info["returns"]
    changed = load_checkpoint(LAST)  # the statistics matter
    changed["policy"]["normalizer"]["obs.mean"] += 1.0
    save_checkpoint("changed.pth.tar", changed)
    assert evaluate_checkpoint("run/total_config.py", "changed.pth.tar")["returns"] != info["returns"]


def test_replay_stores_observations_and_rewards_as_the_environment_gave_them() -> None:
    setup = prepare_run(pair("dqn"), 0, overrides=[*NORM, "exp_name=run"], limits={"max_env_step": 160})
    seen: list[dict[str, Any]] = []
    with policy_process(setup, 0, "policy") as built, Experiment(setup, built) as experiment:
        replay = experiment.fill_replay_buffer()
        policy: Any = experiment.policy
        forward = policy._forward_learn

        def watched(batch: dict[str, Any]) -> dict[str, Any]:
            seen.append(batch)
            return forward(batch)

        policy._forward_learn = watched
        while not experiment.finished():
            replay.push(experiment.collect())
            experiment.learn(experiment.sample(replay), replay.update)
        normalizer = experiment.policy.normalizer
        assert isinstance(normalizer, Normalizer)
        obs = replay.ring.columns["obs"][: replay.ring.size * 8].double()
        assert torch.equal(replay.ring.columns["reward"][: replay.ring.size * 8].unique(), torch.ones(1))
        stats = normalizer.obs
        assert stats is not None
        torch.testing.assert_close(stats.mean, obs.mean(0), rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(stats.var, obs.var(0, correction=0), rtol=1e-5, atol=1e-7)
        experiment.evaluator.last_iter = experiment.learner.train_iter
    batch = seen[-1]
    assert batch["obs"].double().std(0, correction=0).sub(1).abs().max() < 0.5  # CartPole's own are far from 1
    assert obs.std(0).min() < 0.2
    assert not torch.equal(batch["reward"], torch.ones(64))


def test_a_model_without_statistics_is_refused_in_one_line_and_so_is_the_opposite() -> None:
    train("dqn", "plain", steps=80)
    train("dqn", "run", *NORM, steps=80)
    plain = "plain/ckpt/ckpt_last.pth.tar"
    with pytest.raises(CheckpointError, match=r"ckpt_last.*' has no statistics of observations, which env\.norm_obs="):
        evaluate_checkpoint(pair("dqn"), plain, overrides=["env.norm_obs=True"])
    with pytest.raises(CheckpointError, match=r"learned from normalised observations: set env\.norm_obs=True\.$"):
        evaluate_checkpoint(pair("dqn"), LAST)
    start = f"policy.learn.learner.hook.load_ckpt_before_run={plain}"
    with pytest.raises(CheckpointError, match=r"has no statistics of observations"):
        train("dqn", "next", *NORM, start)
    evaluate_checkpoint(pair("dqn"), plain, overrides=["env.norm_reward=True"], n_episode=1)  # rewards do not matter


def test_a_data_set_is_recorded_with_frozen_statistics_and_true_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    train("dqn", "run", *NORM, steps=80)
    monkeypatch.setattr(Normalizer, "update", lambda *_: pytest.fail("not frozen"))
    collect_demo_data("run/total_config.py", 0, 64, "demo.npz", state_dict_path=LAST)
    with np.load("demo.npz") as columns:
        assert (columns["reward"] == 1).all()
        assert np.abs(columns["obs"][:, 2]).max() < 0.3  # the pole's angle in radians
    model = prepare_run(pair("dqn"), 0).create_policy().model
    with pytest.raises(ConfigError, match=r"env\.norm_obs=True needs the statistics of a checkpoint"):
        collect_demo_data(pair("dqn"), 0, 8, "other.npz", model=model, overrides=["env.norm_obs=True"])


def test_offline_learning_uses_the_statistics_of_the_data_set() -> None:
    rng = np.random.default_rng(0)
    obs = rng.normal([1, -2, 30], [1, 0.1, 5], (500, 3)).astype(np.float32)
    action, reward = rng.uniform(-1, 1, (500, 1)).astype(np.float32), np.ones(500, np.float32)
    np.savez("data.npz", obs=obs, next_obs=obs[::-1], action=action, reward=reward, done=np.zeros(500, bool))
    config = pendulum_td3_bc_config
    statistics = dict(use_norm=True, offline_stats=dict(use_offline_stats=True))
    main = merge_keys(
        config.main_config, dict(env=dict(norm_obs=statistics, evaluator_env_num=1, n_evaluator_episode=1))
    )
    words = [
        "policy.collect.data_path=data.npz",
        "policy.collect.data_type=npz",
        "policy.collect.action_units=policy",
        "policy.learn.batch_size=100",
        "exp_name=run",
    ]
    policy = serial_pipeline_offline((main, config.create_config), seed=0, overrides=words, max_train_iter=3)
    assert policy is not None
    saved = load_checkpoint(LAST)["policy"]["normalizer"]
    np.testing.assert_allclose(saved["obs.mean"], obs.astype(np.float64).mean(0), rtol=1e-6)
    np.testing.assert_allclose(saved["obs.var"], obs.astype(np.float64).var(0), rtol=1e-6)
    assert saved["obs.count"].tolist() == [500] * 3


@pytest.mark.parametrize(
    ("kind", "env", "message"),
    [
        ("dqn", dict(norm_obs=dict(use_norm=True, offline_stats=dict(use_offline_stats=True))), "without a data set"),
        ("td3_bc", dict(norm_reward=True), "learns from a data set, whose rows need not be whole episodes"),
        ("dqn", dict(norm_obs="yes"), r"env\.norm_obs: expected a dict of options, got str 'yes'"),
        ("dqn", dict(norm_reward=dict(gamma=0.9)), r"Unknown key 'env\.norm_reward\.gamma'"),
    ],
)
def test_what_would_be_wrong_is_refused_when_the_config_compiles(kind: str, env: dict[str, Any], message: str) -> None:
    config = pendulum_td3_bc_config if kind == "td3_bc" else CONFIGS[kind]
    with pytest.raises(ConfigError, match=message):
        compile_config((merge_keys(config.main_config, dict(env=env)), config.create_config))


def test_images_of_bytes_and_loader_workers_are_refused() -> None:
    config = compile_config(pair("dqn"))
    assert config.env.norm_obs.use_norm is False
    atari = dict(env=dict(type="atari", import_names=["dizoo.atari.envs.atari_env"]), policy=dict(type="dqn"))
    with pytest.raises(
        ConfigError, match=r"env\.norm_obs=True, but the observations are Box\(0, 255.*scaled to 0\.\.1"
    ):
        prepare_run((dict(env=dict(env_id="PongNoFrameskip-v4", norm_obs=True, frame_stack=4)), atari))
    for key in ("norm_obs", "norm_reward"):
        with pytest.raises(ConfigError, match=rf"env\.{key}=True does not work with RolloutDataset"):
            RolloutDataset(pair("dqn"), overrides=[f"env.{key}=True"])
    assert list(Path().iterdir()) == []

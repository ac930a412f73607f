"""A student learns what its teacher would do, of observations that it sees a part of."""

from __future__ import annotations

import copy
import functools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

import ding_lite
from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.policy import DistillPolicy
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError
from tests.distributed import parity
from tests.policy.helpers import batches_of, parameter_hash, same_tree
from tests.run.helpers import metrics, result
from tests.toys import Toy

HIDDEN = ["env.hidden=True", "policy.model.teacher_obs=['hidden']"]


@functools.cache
def problem(kind: str = "discrete", *overrides: str) -> Any:
    """Return a config, and a block that its student has collected."""
    cfg = parity.compile_problem("distill", kind, [*overrides, "policy.learn.epoch_per_collect=1"])
    cfg.policy.learn.batch_size = 10**6
    return cfg, parity.collect_block(cfg)


def student(cfg: Any, fields: tuple[str, ...] = ("learn", "collect", "eval")) -> DistillPolicy:
    torch.manual_seed(0)
    return DistillPolicy(cfg.policy, enable_field=fields)


def first_batch(policy: DistillPolicy, play: Any) -> dict[str, Any]:
    return next(batches_of(policy, *copy.deepcopy(play)))


def rows_of(obs: Any, *keys: str) -> Any:
    return {key: obs[key].flatten(0, 1) for key in keys} if keys else obs.flatten(0, 1)


def test_the_loss_is_the_divergence_of_the_teachers_policy_from_the_students() -> None:
    play = problem()
    policy = student(play[0])
    batch = first_batch(policy, play)
    told = ding_lite.load(play[0].policy.learn.teacher_path).policy.act(batch["obs"], explore=False)["logit"]
    torch.testing.assert_close(batch["label"], told)
    p, q = (logit.softmax(-1).detach().double().numpy() for logit in (told, policy.model(batch["obs"])["logit"]))
    loss, figures = policy.loss(batch)
    assert loss.item() == pytest.approx((p * np.log(p / q)).sum(-1).mean(), rel=1e-4)
    assert figures["accuracy"].mean().item() == pytest.approx((p.argmax(-1) == q.argmax(-1)).mean())


@pytest.mark.parametrize("loss_type", ["mse_loss", "huber_loss"])
def test_means_of_continuous_actions_are_compared_by_their_square_or_hubers_error(loss_type: str) -> None:
    play = problem("continuous", f"policy.loss_type={loss_type}")
    policy = student(play[0])
    batch = first_batch(policy, play)
    batch["label"] = batch["label"] + torch.linspace(-3, 3, len(batch["label"]))[:, None]
    error = (policy.model(batch["obs"])["logit"]["mu"] - batch["label"]).abs()
    huber = torch.where(error < 1, error.square() / 2, error - 0.5)
    loss, figures = policy.loss(batch)
    torch.testing.assert_close(loss, (error.square() if loss_type == "mse_loss" else huber).mean())
    torch.testing.assert_close(figures["action_error"], error.detach())


def test_the_teacher_sees_what_is_hidden_from_the_student_and_is_not_trained() -> None:
    play = problem("discrete", *HIDDEN)
    policy = student(play[0])
    assert policy.teacher is not None
    before, state = parameter_hash(policy.teacher.policy.model), policy.state_dict()
    assert not any("teacher" in key for key in state)
    batch = first_batch(policy, play)
    other = {"observation": batch["obs"]["observation"], "hidden": -batch["obs"]["hidden"]}
    assert not torch.allclose(policy.teacher.act(other)["label"], batch["label"])
    assert torch.equal(policy.model(other)["logit"], policy.model(batch["obs"])["logit"])
    old = parameter_hash(policy.model)
    policy.learn(batch)
    assert parameter_hash(policy.model) != old
    assert parameter_hash(policy.teacher.policy.model) == before


def test_teacher_share_is_the_part_of_the_actions_that_the_teacher_plays() -> None:
    play = problem("continuous")
    obs = torch.randn(1000, 4)
    for share, low, high in ((0.0, 0, 0), (0.3, 250, 350), (1.0, 1000, 1000)):
        play[0].policy.collect.teacher_share = share
        policy = student(play[0])
        assert policy.teacher is not None
        taught = (policy.act(obs)["action"] == policy.teacher.act(obs)["action"]).all(-1)
        assert low <= taught.sum() <= high  # 300 +- 3 standard deviations of 14.5
        assert not (policy.act(obs, explore=False)["action"] == policy.teacher.act(obs)["action"]).any()
    play[0].policy.collect.teacher_share = 0.0


def run(name: str, folder: Path, *overrides: str, env: Any = "parity", **policy: Any) -> str:
    """Train a policy, PPO by default for an iteration, and return the run's directory."""
    sizes = dict(collect=dict(n_sample=16)) if name == "ppo" else dict(random_collect_size=0)
    main = dict(env=dict(n_evaluator_episode=1, evaluator_env_num=1), policy=dict(num_threads=1, **(sizes | policy)))
    created = dict(type=env, import_names=["tests.distributed.parity"]) if env == "parity" else dict(type=env)
    pipeline = serial_pipeline if name == "dqn" else serial_pipeline_onpolicy
    words = [f"exp_name={folder}/{name}", *overrides]
    pipeline((main, dict(env=created, policy=dict(type=name))), seed=0, max_train_iter=1, overrides=words)
    return f"{folder}/{name}"


def test_values_of_a_teacher_are_no_probabilities_so_that_its_action_is_the_label(tmp_path: Path) -> None:
    path = run("dqn", tmp_path)
    play = problem()
    cfg = copy.deepcopy(play[0])
    cfg.policy.learn.teacher_path = path
    policy = student(cfg)
    batch = first_batch(policy, (cfg, play[1]))
    played = ding_lite.load(path).policy.act(batch["obs"], explore=False)["action"].clone()  # of inference mode
    loss, _ = policy.loss(batch)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(policy.model(batch["obs"])["logit"], played))


def test_a_teacher_normalises_the_environments_observations_by_its_own_statistics(tmp_path: Path) -> None:
    path = run("ppo", tmp_path, "env.norm_obs=True")
    agent, play = ding_lite.load(path), problem()
    assert (agent.policy.normalizer.obs.mean != 0).all()  # type: ignore[union-attr]  # it has statistics
    cfg = copy.deepcopy(play[0])
    cfg.policy.learn.teacher_path = path
    policy = student(cfg)
    policy.normalizer = copy.deepcopy(agent.policy.normalizer)  # the student's own: labels do not depend on it
    policy.normalizer.obs.mean.add_(5.0)  # type: ignore[union-attr]
    samples = policy.to_samples(copy.deepcopy(play[1]))
    expected = agent.policy.act(rows_of(play[1]["obs"]), explore=False)["logit"]
    torch.testing.assert_close(samples["label"].flatten(0, 1), expected)
    assert not torch.allclose(samples["obs"], play[1]["obs"])


@pytest.mark.parametrize(
    ("teacher", "own", "message"),
    [
        (["env.kind=continuous"], [], "chooses actions of Box"),
        (["env.hidden=True"], [], r"sees obs.hidden \[2\], but this environment returns obs \[4\]"),
        (["policy.model.lstm_type=gru"], [], "is recurrent: choose one that acts on single observations"),
        (["env.kind=continuous", "env.act_scale=False"], ["env.kind=continuous"], "units of env.act_scale=False: set"),
    ],
)
def test_a_teacher_that_does_not_fit_is_one_line(
    teacher: list[str], own: list[str], message: str, tmp_path: Path
) -> None:
    path = run("ppo", tmp_path, *teacher)
    with pytest.raises(ConfigError, match=rf"^policy.learn.teacher_path: [^\n]*{message}[^\n]*$"):
        run("distill", tmp_path, f"policy.learn.teacher_path={path}", *own)


class Recall(Toy):
    """Three steps, of which each is worth 1 if the action is the sign; `shown` shows it at the first step alone."""

    observation_space = Dict(sign=Box(0, 1, (3,)), shown=Box(0, 1, (3,)))
    action_space = Discrete(3)

    def begin(self) -> None:
        self.sign = int(self.np_random.integers(3))

    def observe(self) -> Any:
        sign = np.eye(3, dtype=np.float32)[self.sign]
        return {"sign": sign, "shown": sign * (self.count == 0)}

    def play(self, action: Any) -> Any:
        return float(action == self.sign), self.count == 3


@pytest.fixture
def recall() -> Iterator[None]:
    ENV_REGISTRY["recall"] = Recall
    yield
    del ENV_REGISTRY["recall"]


@pytest.mark.usefixtures("recall")
def test_a_student_with_a_memory_learns_what_its_teacher_sees(tmp_path: Path) -> None:
    env = dict(n_evaluator_episode=48, evaluator_env_num=8, stop_value=2.9)
    small: dict[str, Any] = dict(encoder_hidden_size_list=[32, 32])
    options: dict[str, Any] = dict(num_threads=1, collect=dict(n_sample=240), eval=dict(evaluator=dict(eval_freq=20)))
    for name, model, learn in (
        ("ppo", dict(share_encoder=False, critic_obs=["shown"]), {}),
        ("distill", dict(teacher_obs=["sign"], lstm_type="gru"), dict(teacher_path=f"{tmp_path}/ppo", batch_size=60)),
    ):
        policy = options | dict(model=small | model, learn=dict(learning_rate=0.003, **learn))
        pair = (
            dict(exp_name=f"{tmp_path}/{name}", env=env, policy=policy),
            dict(env=dict(type="recall"), policy=dict(type=name)),
        )
        serial_pipeline_onpolicy(pair, seed=0, max_env_step=30_000)
        # without a memory the best return is 1 + 2 / 3
        assert result(tmp_path / name)["stop_reason"] == "stop_value", metrics(tmp_path / name)
    shutil.rmtree(tmp_path / "ppo")  # the student acts without its teacher, and without what it saw
    agent = ding_lite.load(f"{tmp_path}/distill")
    for sign in range(3):
        agent.reset()
        shown = np.eye(3, dtype=np.float32)[sign]
        assert [agent.act({"shown": shown * first}) for first in (1, 0, 0)] == [sign] * 3


@pytest.mark.usefixtures("recall")
def test_a_resumed_student_is_the_one_that_was_not_stopped(tmp_path: Path) -> None:
    words = ["policy.model.teacher_obs=['sign']", "policy.model.lstm_type=gru", "policy.collect.teacher_share=0.5"]
    path = run("ppo", tmp_path, env="recall")
    main = dict(policy=dict(num_threads=1, collect=dict(n_sample=48), learn=dict(teacher_path=path)))
    pair = (main, dict(env=dict(type="recall"), policy=dict(type="distill")))

    def train(name: str, limit: int, *more: str) -> Any:
        policy = serial_pipeline_onpolicy(
            copy.deepcopy(pair), seed=0, max_env_step=limit, overrides=[f"exp_name={tmp_path}/{name}", *words, *more]
        )
        return policy.state_dict()["model"]

    whole = train("whole", 192)
    train("parts", 96)
    assert same_tree(train("parts", 192, "policy.learn.resume_training=True"), whole)

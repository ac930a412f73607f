"""Whole short on-policy runs of CartPole, and one clear line for what cannot run, before any environment starts."""

from __future__ import annotations

import copy
import os
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ding_lite.entry import find_pipeline, serial_pipeline, serial_pipeline_offline, serial_pipeline_onpolicy
from ding_lite.envs import episode_monitor
from ding_lite.policy import Policy
from ding_lite.utils import POLICY_REGISTRY, ConfigError
from ding_lite.worker import episode_collector
from dizoo.classic_control.cartpole.config.cartpole_ppo_config import create_config, main_config
from tests.policy.helpers import parameter_hash
from tests.run.helpers import last_checkpoint, metrics, result
from tests.worker.games import CountingGame

STEPS, COLLECT, EPOCHS = 512, 128, 2  # 4 collects of 2 epochs of 128 / 64 = 2 minibatches: 16 iterations
SHORT = [
    "exp_name=run", f"policy.collect.n_sample={COLLECT}", f"policy.learn.epoch_per_collect={EPOCHS}",
    "policy.eval.evaluator.eval_freq=8", "policy.learn.learner.hook.log_show_after_iter=4",
    "env.evaluator_env_num=2", "env.n_evaluator_episode=2",
]  # fmt: skip


def pair(kind: str = "ppo") -> tuple[dict[str, Any], dict[str, Any]]:
    config, create = copy.deepcopy(main_config), copy.deepcopy(create_config)
    create["policy"]["type"] = kind
    if kind != "ppo":
        config["policy"] = {"num_threads": 1, "model": dict(encoder_hidden_size_list=[16, 16])}
    return config, create


def run(*overrides: str, **options: Any) -> Policy:
    options = {"seed": 0, "max_env_step": STEPS, **options}
    return serial_pipeline_onpolicy(options.pop("input_cfg", pair()), **options, overrides=[*SHORT, *overrides])


def test_a_run_leaves_checkpoints_metrics_and_result(tmp_path: Path) -> None:
    policy = run()
    folder = tmp_path / "run"
    names = {"ckpt_best", "ckpt_last", "iteration_0", "iteration_0.rank_0", "iteration_16", "iteration_16.rank_0"}
    assert {file.name for file in (folder / "ckpt").iterdir()} == {f"{name}.pth.tar" for name in names}
    state, told = last_checkpoint(folder), result(folder)
    assert parameter_hash(state["policy"]["model"]) == parameter_hash(policy.model)
    assert state["policy"]["value_stats"]["count"].item() == STEPS
    assert (told["stop_reason"], told["envstep"], told["train_iter"]) == ("max_env_step", STEPS, 16)
    lines = metrics(folder)
    trained = [line for line in lines if "train/total_loss" in line]
    assert [line["train_iter"] for line in trained] == [4, 8, 12, 16]
    names = {"policy_loss", "value_loss", "entropy", "approx_kl", "clipfrac", "grad_norm", "learning_rate"}
    assert all({f"train/{name}" for name in names} <= set(line) for line in trained)
    # 1 - 0.9 * collects / 400, of 0.001
    rates = [line["train/learning_rate"] for line in trained]
    assert rates == pytest.approx([0.001 * (1 - 0.9 * count / 400) for count in range(4)], rel=1e-5)
    judged = [line["train_iter"] for line in lines if "eval/return_mean" in line]
    assert judged == [0, 8, 16]


class Endless(CountingGame):
    """A game without an end, in whose step of this number a Ctrl-C arrives."""

    def __init__(self, interrupted_after: int) -> None:
        super().__init__(10**9)
        self._after = interrupted_after

    def play(self, action: Any) -> Any:
        if self.count == self._after:
            os.kill(os.getpid(), signal.SIGINT)
        return super().play(action)


@pytest.mark.parametrize(
    ("signal_after", "grace", "reason", "steps"),
    [
        (0, 100, "max_env_step", 40),  # one collect: two environments, of an episode of 20 steps each
        (0, 6, "max_env_step", 14),  # more than 10 steps after the sixth one of two environments: the next is the last
        (5, 100, "interrupted", 12),  # the sixth step ends both episodes
        (0, 6, "max_seconds", None),
    ],
)
def test_a_run_of_whole_episodes_ends_although_its_episodes_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal_after: int, grace: int, reason: str, steps: int | None
) -> None:
    monkeypatch.setattr(episode_monitor, "LONGEST_EPISODE", 20 if steps else 10**7)
    monkeypatch.setattr(episode_collector, "GRACE", grace)
    setting = (lambda after: CountingGame(5) if after is None else Endless(after), [signal_after, 0], [None])
    words = ["policy.collect.n_episode=2", "env.n_evaluator_episode=1", "exp_name=run"]
    words += [] if steps else ["max_seconds=1"]
    input_cfg = (dict(policy=dict(num_threads=1)), dict(policy=dict(type="pg")))
    ends = pytest.raises(SystemExit) if reason == "interrupted" else nullcontext()
    with ends:
        serial_pipeline_onpolicy(input_cfg, 0, setting, max_env_step=10 if steps else 10**9, overrides=words)
    found = result(tmp_path / "run")
    assert (found["stop_reason"], found["envstep"]) == (reason, steps or found["envstep"])


# -- mistakes ---------------------------------------------------------------------------------------------------------


def refusal(pipeline: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as error:
        pipeline(*args, **options)
    return str(error.value)


PIPELINES = {"dqn": serial_pipeline, "ppo": serial_pipeline_onpolicy, "bc": serial_pipeline_offline}


@pytest.mark.parametrize("kind", PIPELINES)
def test_a_policy_belongs_into_one_pipeline(nothing_starts: None, kind: str) -> None:
    input_cfg = (dict(env=dict(env_id="CartPole-v1")), dict(policy=dict(type=kind)))
    assert find_pipeline(POLICY_REGISTRY.find(kind)) is PIPELINES[kind]
    for pipeline in set(PIPELINES.values()) - {PIPELINES[kind]}:
        line = refusal(pipeline, input_cfg)
        assert line.startswith(f"Policy '{kind}' learns ")
        assert f": use {PIPELINES[kind].__name__}(...), or" in line

"""A reward model with a network of its own: on two processes, in checkpoints, in records, refused where it is wrong.

The ranks run this file as `python -m tests.seams.test_curiosity WHAT ...`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.entry import (
    RolloutDataset,
    evaluate_checkpoint,
    serial_pipeline,
    serial_pipeline_bc,
    serial_pipeline_onpolicy,
)
from ding_lite.reward_model import RewardModel
from ding_lite.torch_utils.networks import checksum_networks
from ding_lite.utils import CheckpointError, ConfigError, DDPContext, get_rank, load_checkpoint
from tests.distributed.launcher import run_ranks, say
from tests.entry.test_resume import assert_same, last_state
from tests.seams.curiosity import CuriosityRewardModel
from tests.seams.ranks import QUICK, metrics, pair_of, train

NAME = "curiosity"
ME = ["-m", "tests.seams.test_curiosity"]
RATES = ("seconds", "time", "collect/env_step_per_second")  # what differs between two equal runs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train_on_ranks(*words: str) -> None:
    """Train on the ranks of this group; say what the reward model's networks were after building, and at the end."""
    models: list[RewardModel] = []
    original = RewardModel.__init__

    def remember(self: RewardModel, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        models.append(self)
        say(f"rank {get_rank()} began with {checksum_networks(self.networks)}")

    RewardModel.__init__ = remember  # type: ignore[method-assign]
    train(NAME, *QUICK, *words, max_train_iter=40)
    (model,) = models
    say(f"rank {get_rank()} ended with {checksum_networks(model.networks)}")


def test_its_networks_train_on_two_processes_and_are_equal_on_both(tmp_path: Path) -> None:
    done = run_ranks([*ME, "train"], timeout=280, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    began, ended = (
        dict(re.findall(rf"^rank (\d) {word} with (.*)$", done.stdout, re.M)) for word in ("began", "ended")
    )
    assert set(began) == set(ended) == {"0", "1"}
    assert began["0"] == began["1"]
    assert ended["0"] == ended["1"]
    assert began["0"] != ended["0"]
    records = [record for record in metrics(tmp_path) if "reward_model/loss" in record]
    assert len(records) == 4  # of 40 iterations, one in 10
    assert records[0]["reward_model/loss"] > records[-1]["reward_model/loss"] > 0
    state = load_checkpoint(str(tmp_path / "run" / "ckpt" / "ckpt_last.pth.tar"))
    counts = [network["count"] for network in state["reward_model"]["networks"] if "count" in network]
    assert counts == [state["collector"]["envstep"]]  # its statistics are of all steps of both ranks


def test_ranks_whose_reward_models_differ_are_told_apart(tmp_path: Path) -> None:
    done = run_ranks([*ME, "drift"], timeout=280, cwd=tmp_path)
    assert done.returncode != 0
    assert "differ from those of rank 0" in done.stderr + done.stdout


def test_evaluations_and_returns_are_the_environments_own(folder: Path) -> None:
    train(NAME, *QUICK, "reward_model.bonus_weight=1000.0", "env.places=4", max_train_iter=40)
    records = metrics(folder)
    returns = [value for record in records for key, value in record.items() if key.endswith("/return_mean")]
    assert returns
    assert all(0.0 <= value <= 1.0 for value in returns)
    replay = load_checkpoint(str(folder / "run" / "ckpt" / "iteration_40.rank_0.pth.tar"))["replay"]
    assert max(map(largest, replay.values())) > 100.0  # the rewards that are learned from


def largest(tree: Any) -> float:
    if isinstance(tree, dict):
        return max(map(largest, tree.values()), default=0.0)
    return float(tree.double().max()) if isinstance(tree, torch.Tensor) and tree.numel() else 0.0


def test_a_resumed_run_equals_one_that_was_never_stopped(folder: Path) -> None:
    words = [*QUICK, "policy.learn.learner.hook.log_show_after_iter=7", "policy.eval.evaluator.eval_freq=20"]
    train(NAME, *words, "exp_name=whole", max_train_iter=40)
    train(NAME, *words, "exp_name=parts", max_train_iter=20)
    half = load_checkpoint("parts/ckpt/ckpt_last.pth.tar")["reward_model"]
    train(NAME, *words, "exp_name=parts", "policy.learn.resume_training=True", max_train_iter=40)
    whole, parts = last_state("whole"), last_state("parts")
    assert_same(whole, parts)
    assert whole["local"]["reward_model"]["means"]
    with pytest.raises(AssertionError):
        assert_same(half, parts["global"]["reward_model"])
    records = [
        [
            {key: value for key, value in record.items() if key not in RATES}
            for record in metrics(folder, name)
            if "reward_model/loss" in record
        ]
        for name in ("whole", "parts")
    ]
    assert records[0] == records[1]
    assert len(records[0]) == 40 // 7


def test_a_run_is_not_resumed_with_another_reward_model(folder: Path) -> None:
    train(NAME, *QUICK, max_train_iter=20)
    main, create = pair_of(NAME)
    del main["reward_model"], create["reward_model"]
    words = [*QUICK, "policy.learn.resume_training=True"]
    with pytest.raises(CheckpointError, match="has a reward model, and this run has none"):
        serial_pipeline((main, create), seed=0, max_train_iter=40, overrides=words)
    with pytest.raises(CheckpointError, match="does not fit"):
        train(NAME, *words, "reward_model.hidden_size=32", max_train_iter=40)


def test_it_draws_nothing_that_the_policy_draws(folder: Path) -> None:
    """A bonus of nothing leaves the run as it is without a reward model."""
    main, create = pair_of(NAME)
    del main["reward_model"], create["reward_model"]
    without = serial_pipeline((main, create), seed=0, max_train_iter=20, overrides=[*QUICK, "exp_name=without"])
    with_one = train(NAME, *QUICK, "reward_model.bonus_weight=0.0", max_train_iter=20)
    assert without.checksum() == with_one.checksum()


def test_an_on_policy_policy_learns_from_its_rewards_too(folder: Path) -> None:
    main, create = pair_of(NAME)
    main["policy"] = dict(multi_gpu=True, num_threads=1, learn=dict(batch_size=16), collect=dict(n_sample=32))
    create["policy"] = dict(type="ppo")
    ends = [
        serial_pipeline_onpolicy((main, create), seed=0, max_train_iter=20, overrides=[*QUICK, *words])
        for words in (["exp_name=with"], ["exp_name=nothing", "reward_model.bonus_weight=0.0"])
    ]
    assert ends[0].checksum() != ends[1].checksum()
    assert any("reward_model/loss" in record for record in metrics(folder, "with"))


def test_its_checkpoint_is_evaluated_by_the_saved_config(folder: Path) -> None:
    train(NAME, *QUICK, max_train_iter=20)
    info = evaluate_checkpoint("run/total_config.py", "run/ckpt/ckpt_last.pth.tar", n_episode=2)
    assert len(info["returns"]) == 2
    cfg = compile_config("run/total_config.py")
    assert cfg.reward_model.type == "curiosity"
    assert cfg.reward_model.bonus_weight == 0.2


def test_what_does_not_relabel_refuses_a_reward_model() -> None:
    main, create = pair_of(NAME)
    main["policy"], create["policy"] = dict(collect=dict(data_path="none.npz")), dict(type="bc")
    with pytest.raises(ConfigError, match="serial_pipeline_offline does not use a reward model"):
        serial_pipeline_bc((main, create), seed=0)
    with pytest.raises(ConfigError, match="RolloutDataset does not use a reward model"):
        RolloutDataset(pair_of(NAME))


@pytest.mark.learn
def test_it_finds_what_plain_dqn_does_not(folder: Path) -> None:
    words = ["policy.eval.evaluator.eval_freq=1000", "policy.learn.learner.hook.log_show_after_iter=1000"]
    for name, weight in (("with", 0.2), ("without", 0.0)):
        train(NAME, *words, f"exp_name={name}", f"reward_model.bonus_weight={weight}", max_train_iter=5000)
    returns = {name: metrics(folder, name)[-1]["eval/return_mean"] for name in ("with", "without")}
    assert returns == {"with": 1.0, "without": 0.0}


def main(what: str) -> None:
    torch.set_num_threads(1)
    if what == "drift":
        original = CuriosityRewardModel.train

        def drift(self: CuriosityRewardModel, block: dict[str, Any]) -> dict[str, Any]:
            next(self._target.parameters()).data += get_rank()
            return original(self, block)

        CuriosityRewardModel.train = drift  # type: ignore[method-assign]
    with DDPContext(timeout=120):
        train_on_ranks()


if __name__ == "__main__":
    main(*sys.argv[1:])

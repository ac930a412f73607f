"""Runs with a reward model: on two processes, in checkpoints, in records, refused where it is wrong."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from ding_lite.config import compile_config
from ding_lite.entry import RolloutDataset, evaluate_checkpoint, serial_pipeline, serial_pipeline_bc
from ding_lite.entry import serial_pipeline_onpolicy as onpolicy
from ding_lite.policy import Policy
from ding_lite.reward_model import RewardModel, RndRewardModel
from ding_lite.torch_utils.networks import checksum_networks
from ding_lite.utils import CheckpointError, ConfigError, get_rank, load_checkpoint
from tests.distributed.on_ranks import call_on_ranks
from tests.run.helpers import metrics

MAIN: dict[str, Any] = dict(
    exp_name="run",
    env=dict(collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2, max_episode_steps=30),
    policy=dict(
        multi_gpu=True,
        num_threads=1,
        model=dict(encoder_hidden_size_list=[16, 16]),
        learn=dict(update_per_collect=4, batch_size=32, learner=dict(hook=dict(log_show_after_iter=10))),
        collect=dict(n_sample=8),
        eval=dict(evaluator=dict(eval_freq=1_000_000)),
    ),
    reward_model=dict(hidden_size_list=[16, 8], batch_size=16, update_per_collect=2),
)
CREATE: dict[str, Any] = dict(
    env=dict(type="gymnasium", env_id="CartPole-v1"), policy=dict(type="dqn"), reward_model=dict(type="rnd")
)


def pair(**policy: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the config, with another policy if its keys are given."""
    main, create = copy.deepcopy(MAIN), copy.deepcopy(CREATE)
    if policy:
        create["policy"], main["policy"] = dict(type=policy.pop("type")), policy
    return main, create


def without_reward_model() -> tuple[dict[str, Any], dict[str, Any]]:
    return tuple({k: v for k, v in part.items() if k != "reward_model"} for part in pair())  # type: ignore[return-value]


def train(*words: str, max_train_iter: int = 20, input_cfg: Any = None) -> Policy:
    return serial_pipeline(input_cfg or pair(), seed=0, max_train_iter=max_train_iter, overrides=words)


def test_its_networks_train_on_two_processes_and_are_equal_on_both(tmp_path: Path) -> None:
    (began, ended), other = call_on_ranks(train_on_ranks, False, timeout=280, cwd=tmp_path)
    assert (began, ended) == other
    assert began != ended
    records = [record for record in metrics(tmp_path / "run") if "reward_model/bonus_return_std" in record]
    assert len(records) == 4  # of 40 iterations, one in 10
    state = load_checkpoint(str(tmp_path / "run" / "ckpt" / "ckpt_last.pth.tar"))
    counts = [network["returns.count"] for network in state["reward_model"]["networks"] if "returns.count" in network]
    assert counts == [state["collector"]["envstep"]]  # its statistics are of all steps of both ranks


def test_ranks_whose_reward_models_differ_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="differ from those of rank 0"):
        call_on_ranks(train_on_ranks, True, timeout=280, cwd=tmp_path)


def test_evaluations_and_returns_are_the_environments_own(tmp_path: Path) -> None:
    train("reward_model.intrinsic_reward_weight=1000.0", max_train_iter=40)
    records = metrics(tmp_path / "run")
    returns = [value for record in records for key, value in record.items() if key.endswith("/return_mean")]
    assert returns
    assert all(0.0 <= value <= 30.0 for value in returns)
    replay = load_checkpoint(str(tmp_path / "run" / "ckpt" / "iteration_40.rank_0.pth.tar"))["replay"]
    assert replay["ring"]["columns"]["reward"].max() > 100.0  # what is learned from
    info = evaluate_checkpoint("run/total_config.py", "run/ckpt/ckpt_last.pth.tar", n_episode=2)
    assert len(info["returns"]) == 2
    assert compile_config("run/total_config.py").reward_model.intrinsic_reward_weight == 1000.0


def test_a_run_is_not_resumed_with_another_reward_model() -> None:
    train()
    resume = "policy.learn.resume_training=True"
    with pytest.raises(CheckpointError, match="has a reward model, and this run has none"):
        train(resume, max_train_iter=40, input_cfg=without_reward_model())
    with pytest.raises(CheckpointError, match="does not fit"):
        train(resume, "reward_model.hidden_size_list=[32,8]", max_train_iter=40)


def test_it_draws_nothing_that_the_policy_draws() -> None:
    """A bonus of nothing leaves the run as it is without a reward model."""
    without = train("exp_name=without", input_cfg=without_reward_model())
    assert without.checksum() == train("reward_model.intrinsic_reward_weight=0.0").checksum()


def test_an_on_policy_policy_learns_from_its_rewards_too(tmp_path: Path) -> None:
    config = pair(type="ppo", num_threads=1, learn=dict(batch_size=16), collect=dict(n_sample=32))
    words = ("policy.learn.learner.hook.log_show_after_iter=10", "reward_model.intrinsic_reward_weight=")
    ends = [
        onpolicy(config, seed=0, max_train_iter=20, overrides=[words[0], f"{words[1]}{weight}", f"exp_name={weight}"])
        for weight in (1.0, 0.0)
    ]
    assert ends[0].checksum() != ends[1].checksum()
    assert any("reward_model/bonus_return_std" in record for record in metrics(tmp_path / "1.0"))


def test_what_does_not_relabel_refuses_a_reward_model() -> None:
    with pytest.raises(ConfigError, match="serial_pipeline_offline does not use a reward model"):
        serial_pipeline_bc(pair(type="bc", collect=dict(data_path="none.npz")), seed=0)
    with pytest.raises(ConfigError, match="RolloutDataset does not use a reward model"):
        RolloutDataset(pair())


def train_on_ranks(drift: bool) -> tuple[Any, Any]:
    """Train on the ranks of this group; return what the reward model's networks were when built, and at the end."""
    models: list[RewardModel] = []
    began: list[tuple[int, int]] = []
    build, learn = RndRewardModel.__init__, RndRewardModel.train

    def remember(self: RndRewardModel, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        models.append(self)
        began.append(checksum_networks(self.networks))

    def drift_apart(self: RndRewardModel, block: dict[str, Any]) -> dict[str, Any]:
        next(self._target.parameters()).data += get_rank()
        return learn(self, block)

    RndRewardModel.__init__ = remember  # type: ignore[method-assign, assignment]
    if drift:
        RndRewardModel.train = drift_apart  # type: ignore[method-assign]
    train("policy.learn.learner.hook.check_ranks_after_iter=10", max_train_iter=40)
    return began[0], checksum_networks(models[0].networks)

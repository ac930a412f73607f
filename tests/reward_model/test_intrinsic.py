"""Random network distillation and the intrinsic curiosity module, in runs and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from ding_lite.config import compile_config
from ding_lite.entry import serial_pipeline_reward_model_offpolicy
from ding_lite.policy import DQNPolicy
from ding_lite.utils.key import declared_keys, default_values
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY, ConfigError
from tests.reward_model.test_runs import pair
from tests.run.test_resume import last_state
from tests.survival.common import differences

KINDS = ["rnd", "icm"]
THREE = Discrete(3)
SMALL = {"hidden_size_list": [16, 8], "batch_size": 16, "update_per_collect": 50}


def build(kind: str, action_space: Any = THREE, **values: Any) -> Any:
    torch.manual_seed(0)
    cls = REWARD_MODEL_REGISTRY.find(kind)
    cfg = EasyDict({**default_values(declared_keys(cls)), **SMALL, **values})
    return cls(cfg, DQNPolicy.default_config(), Box(-1.0, 1.0, (4,), np.float32), action_space, torch.device("cpu"))


def block(seed: int, place: float) -> dict[str, Any]:
    """T=16, N=2: observations around a place, which the three actions move."""
    draw = torch.Generator().manual_seed(seed)
    action = torch.randint(3, (16, 2), generator=draw)
    obs = place + 0.1 * torch.randn(17, 2, 4, generator=draw)
    step = torch.arange(16).int().unsqueeze(1).expand(-1, 2)  # of one episode
    rows = {"obs": obs[:-1], "action": action, "reward": torch.full((16, 2), 5.0), "episode_step": step}
    return rows | {"last_obs": obs[-1]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_bonus_pays_for_what_is_new(kind: str) -> None:
    model = build(kind, intrinsic_reward_type="assign", obs_norm_clamp_min=-5.0, obs_norm_clamp_max=5.0)
    for seed in range(20):
        model.process(block(seed, 0.0))
    with torch.no_grad():
        known, new = (model.relabel(block(99, place))["reward"].mean() for place in (0.0, 2.0))
    assert new > 3 * known


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_are_scaled_and_joined_as_the_config_says(kind: str) -> None:
    model = build(kind, extrinsic_reward_norm_max=10.0, intrinsic_reward_weight=0.5)
    given = block(0, 0.0)
    relabelled = model.process(given)["reward"]
    assert (given["reward"] == 5.0).all()
    model._cfg.intrinsic_reward_type = "assign"
    with torch.no_grad():
        bonus = model.relabel(given)["reward"]
    torch.testing.assert_close(relabelled, 5.0 / 10.0 + 0.5 * bonus)
    assert bonus.min() >= 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_bonus_is_divided_by_the_deviation_of_discounted_sums_of_bonuses(kind: str) -> None:
    model = build(kind, intrinsic_reward_type="assign", update_per_collect=0)
    discount, sums, before = model._cfg.bonus_discount, [], torch.zeros(2)
    for seed in range(3):  # the second block goes on with the episodes of the first one, the third starts new ones
        part = block(seed, 0.0)
        part["episode_step"] = part["episode_step"] + 16 * (seed == 1)
        reward_TN = model.process(part)["reward"]
        with torch.no_grad():
            bonus_TN = model._bonus(model._data(part)).view(16, 2)
        for bonus_N, step_N in zip(bonus_TN, part["episode_step"], strict=True):
            before = bonus_N + discount * before * (step_N > 0)
            sums.append(before)
        if kind == "icm":  # RND's bonuses change with its statistics of observations
            deviation = torch.stack(sums).std(correction=0)
            torch.testing.assert_close(reward_TN, bonus_TN / deviation, rtol=1e-4, atol=1e-5)
    assert reward_TN.abs().max() < 10


def test_the_inverse_model_learns_which_action_lies_between_two_observations() -> None:
    model = build("icm", update_per_collect=200)
    moved = block(0, 0.0)
    moved["obs"], moved["last_obs"] = torch.zeros(16, 2, 4), torch.zeros(2, 4)
    moved["obs"][1:, :, 0] = moved["action"][:-1].float()
    moved["last_obs"][:, 0] = moved["action"][-1].float()
    first = float(build("icm", update_per_collect=1).train(moved)["inverse_loss"])
    assert float(model.train(moved)["inverse_loss"]) < 0.2 * first


def test_continuous_actions_are_learned_from_and_several_choices_refused() -> None:
    model = build("icm", Box(-1.0, 1.0, (2,), np.float32))
    given = {**block(0, 0.0), "action": torch.zeros(16, 2, 2)}
    assert model.process(given)["reward"].isfinite().all()
    with pytest.raises(ConfigError, match="needs a Discrete or Box action space"):
        build("icm", MultiDiscrete([2, 3]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_equals_one_that_was_never_stopped(tmp_path: Path, kind: str) -> None:
    main, create = pair()
    create["reward_model"]["type"] = kind
    words = ["policy.learn.learner.hook.log_show_after_iter=7", "policy.eval.evaluator.eval_freq=20"]

    def train(name: str, number: int, *more: str) -> Any:
        overrides = [*words, f"exp_name={tmp_path / name}", *more]
        serial_pipeline_reward_model_offpolicy((main, create), seed=0, max_train_iter=number, overrides=overrides)
        return last_state(str(tmp_path / name))

    whole = train("whole", 40)
    train("parts", 20)
    assert not differences(whole, train("parts", 40, "policy.learn.resume_training=True"))
    assert "reward_model/bonus_return_std" in (tmp_path / "whole/metrics.jsonl").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_di_engine_are_accepted(kind: str) -> None:
    main = dict(
        env=dict(env_id="CartPole-v1"),
        reward_model=dict(
            intrinsic_reward_type="add", learning_rate=0.001, obs_shape=4, batch_size=32, update_per_collect=10,
            clear_buffer_per_iters=10,
        ),
    )  # fmt: skip
    cfg = compile_config((main, dict(policy=dict(type="dqn"), reward_model=dict(type=kind))))
    assert cfg.reward_model.update_per_collect == 10

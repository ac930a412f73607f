"""`QACPolicy` trained from a replay buffer: a twin-critic algorithm as a user would write it, outside the package."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from ding_lite.config import compile_config
from ding_lite.policy import OfflinePolicy, Policy, QACPolicy
from ding_lite.rl_utils import sum_of_means
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from tests.policy.continuous.helpers import OBS, D, make_batch


@POLICY_REGISTRY.register("twin_critic_test")
class TwinCriticPolicy(QACPolicy):
    """TD3 (Fujimoto et al. 2018, arXiv:1802.09477) without smoothing or delay."""

    config: ClassVar[dict[str, Any]] = dict(
        type="twin_critic_test",  # (str) name in the policy registry
        model=dict(
            action_space="regression",  # (str) the actor says an action
        ),
        learn=dict(
            rate=1e-3,  # (float) step size of both Adams
        ),
    )
    action_space: ClassVar[str] = "regression"

    def _init_learn(self) -> None:
        super()._init_learn()
        for name in ("critic", "actor"):
            self._add_optimizer(name, getattr(self._model, name), self._cfg.learn.rate)
        self._target_critic, self._target_actor = self._add_target("critic"), self._add_target("actor")

    def _critic_loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.no_grad():
            action_BD = self._run(self._target_actor, batch["next_obs"])
            value_B = self._run(self._target_critic, batch["next_obs"], action=action_BD).amin(0)
        q_CB = self._run(self._model.critic, batch["obs"], action=batch["action"])
        target_B = batch["reward"] + batch["value_gamma"] * value_B.masked_fill(batch["done"], 0.0)
        error_CB = target_B - q_CB
        loss = sum_of_means(error_CB.square(), batch.get("weight"))
        return loss, {"priority": error_CB.detach().abs().mean(0)}

    def _actor_loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        action_BD = self._run(self._model.actor, batch["obs"])
        return -self._run_frozen(self._model.critic, batch["obs"], action=action_BD)[0].mean(), {}

    def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        batch = self._prepare(batch)
        output = self._optimizers["critic"].step(self._critic_loss, batch)
        output |= self._optimizers["actor"].step(self._actor_loss, batch)
        self._update_targets()
        return output


def make(*overrides: str) -> Any:
    network = dict(obs_shape=OBS, action_shape=D, actor_head_hidden_size=16, critic_head_hidden_size=16)
    main = dict(env=dict(env_id="Pendulum-v1"), policy=dict(model=network))
    keys = [f"policy.{item}" for item in overrides]
    cfg = compile_config((main, dict(policy=dict(type="twin_critic_test"))), None, False, keys)
    return TwinCriticPolicy(cfg.policy)


def test_it_has_the_keys_of_a_replay_buffer_and_none_of_a_data_set() -> None:
    cfg = TwinCriticPolicy.default_config()
    assert TwinCriticPolicy.learns_from == "replay"
    assert {"priority", "nstep", "random_collect_size"} <= set(cfg)
    assert cfg.learn.update_per_collect is None  # one for each env step
    assert "data_path" not in cfg.collect
    with pytest.raises(ConfigError, match="priority_IS_weight=True needs prioritised replay"):
        make("priority_IS_weight=True")


@pytest.mark.parametrize("name", ["cql", "td3_bc", "iql"])
def test_the_offline_policies_are_the_same_base_with_another_source(name: str) -> None:
    policy_cls: Any = POLICY_REGISTRY.find(name)
    assert issubclass(policy_cls, OfflinePolicy)
    assert issubclass(policy_cls, QACPolicy)
    assert not issubclass(OfflinePolicy, Policy)
    cfg = policy_cls.default_config()
    assert policy_cls.learns_from == "dataset"
    assert "data_path" in cfg.collect
    assert not {"priority", "random_collect_size"} & set(cfg)
    assert "replay_buffer" not in cfg.other


def test_collecting_adds_noise_for_each_environment_and_step() -> None:
    policy = make("collect.noise_sigma=0.3")
    obs = np.tile(np.ones(OBS, np.float32) * 0.1, (4000, 1))
    best = policy.act(obs, explore=False)["action"]
    first, second = (policy.act(obs)["action"] for _ in range(2))
    assert not torch.equal(first, second)
    inside = (first.abs() < 1).all(-1)
    noise = (first - best)[inside]
    assert noise.std().item() == pytest.approx(0.3, abs=0.03)  # the networks say actions near 0
    assert first.abs().max() <= 1


def test_priorities_and_importance_weights() -> None:
    batch = make_batch(16) | {"weight": torch.linspace(0.1, 1.0, 16)}
    losses = {}
    for keys in ((), ("priority=True",), ("priority=True", "priority_IS_weight=True")):
        torch.manual_seed(0)
        output = make(*keys).learn(dict(batch))
        losses[keys] = output["critic_loss"].item()
        assert output["priority"].shape == (16,)
        assert (output["priority"] > 0).all()
    plain, unweighed, weighed = losses.values()
    assert plain == unweighed != weighed


def test_every_optimizers_learning_rate_is_logged() -> None:
    policy = make("learn.rate=0.002")
    output = policy.learn(make_batch(8))
    names = {"critic_learning_rate", "actor_learning_rate"}
    assert names <= set(policy.monitor_vars())
    assert [output[name].item() for name in names] == pytest.approx([0.002] * 2)

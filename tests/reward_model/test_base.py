"""The base of reward models: the parts that every one has, and what becomes of a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn

from ding_lite.config import compile_config
from ding_lite.policy import DQNPolicy
from ding_lite.reward_model import RewardModel, next_obs
from ding_lite.torch_utils import NonFiniteError
from ding_lite.utils.key import declared_keys, default_values
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY, ConfigError

SPACES = (Box(-1.0, 1.0, (3,), np.float32), Discrete(2))


class Halving(RewardModel):
    """Learns to say the mean of an observation's numbers, and halves rewards."""

    config = dict(type="halving", learning_rate=0.5)

    def _init_networks(self) -> None:
        self.parts = {"net": nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.5))}
        self.step = self._add_optimizer("net", self.parts["net"], optimizer="sgd")
        self.trained_in: list[bool] = []

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        obs = batch["obs"]
        return (self.parts["net"](obs).squeeze(-1) - obs.mean(-1)).square().mean(), {}

    def train(self, block: dict[str, Any]) -> dict[str, Tensor]:
        self.trained_in.append(self.parts["net"].training)
        return {"loss": self.step.step(self._loss, {"obs": block["obs"].flatten(0, 1)})["net_loss"]}

    def relabel(self, block: dict[str, Any]) -> dict[str, Any]:
        self.relabelled_in = (self.parts["net"].training, torch.is_grad_enabled())
        return {**block, "reward": block["reward"].double() / 2}


def build(cls: type[RewardModel] = Halving, **overrides: Any) -> Any:
    torch.manual_seed(0)
    cfg = EasyDict({**default_values(declared_keys(cls)), **overrides})
    return cls(cfg, DQNPolicy.default_config(), *SPACES, torch.device("cpu"))


def make_block(seed: int = 0) -> dict[str, Any]:
    """T=2, N=2; the first environment's episode ends in the first row."""
    draw = torch.Generator().manual_seed(seed)
    return {
        "obs": torch.randn(2, 2, 3, generator=draw),
        "reward": torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        "last_obs": torch.randn(2, 3, generator=draw),
        "final_obs": torch.randn(1, 3, generator=draw),
        "final_index": torch.tensor([0]),
    }


def test_a_block_is_learned_from_and_then_relabelled() -> None:
    model, block = build(), make_block()
    before = {key: value.clone() for key, value in block.items()}
    weight = model.parts["net"][0].weight.clone()
    relabelled = model.process(block)
    assert relabelled["reward"].tolist() == [[0.5, 1.0], [1.5, 2.0]]
    assert relabelled["reward"].dtype == torch.float32
    assert relabelled["obs"] is block["obs"]
    assert all(torch.equal(value, before[key]) for key, value in block.items())
    assert not torch.equal(model.parts["net"][0].weight, weight)


def test_it_trains_in_training_mode_and_relabels_in_evaluation_mode_without_gradient() -> None:
    model = build()
    for _ in range(2):
        model.process(make_block())
        assert model.relabelled_in == (False, False)
    assert model.trained_in == [True, True]


def test_networks_are_found_wherever_they_are_kept() -> None:
    model = build()
    assert model.networks == [model.parts["net"]]


def test_the_learning_rate_is_the_reward_models_own() -> None:
    model = build()
    model.process(make_block())
    assert model.take_figures()["net_learning_rate"] == 0.5


def test_options_that_contradict_its_optimizer_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REWARD_MODEL_REGISTRY, "halving", Halving)
    create = dict(policy=dict(type="dqn"), reward_model=dict(type="halving"))
    main = dict(env=dict(env_id="CartPole-v1"), reward_model=dict(momentum=0.5))
    with pytest.raises(
        ConfigError, match=r"^reward_model.momentum=0.5 has no effect with reward_model.optimizer='adam'"
    ):
        compile_config((main, create))
    cfg = compile_config(({**main, "reward_model": dict(momentum=0.5, optimizer="rmsprop")}, create))
    assert (cfg.reward_model.learning_rate, cfg.policy.learn.optimizer) == (0.5, "adam")


def test_figures_are_means_since_they_were_last_taken() -> None:
    model, losses = build(learning_rate=0.0), []
    alone = build(learning_rate=0.0)
    for seed in range(3):
        model.process(make_block(seed))
        torch.manual_seed(seed)
    model.take_figures()
    for seed in range(2):
        for each in (model, alone):
            torch.manual_seed(seed)
            each.process(make_block(seed))
        losses.append(alone.take_figures()["loss"])
    assert losses[0] != losses[1]
    assert model.take_figures()["loss"] == pytest.approx(sum(losses) / 2)
    assert model.take_figures() == {}


def test_rewards_of_a_wrong_shape_are_refused() -> None:
    class Flat(Halving):
        def relabel(self, block: dict[str, Any]) -> dict[str, Any]:
            return {**block, "reward": block["reward"].flatten()}

    with pytest.raises(ValueError, match=r"Flat.relabel: expected rewards of shape \(2, 2\), got \(4,\)"):
        build(Flat).process(make_block())


def test_a_loss_that_is_not_finite_says_whose_it_is() -> None:
    block = make_block()
    block["obs"][0, 0, 0] = torch.nan
    with pytest.raises(NonFiniteError, match="In the reward model: "):
        build().process(block)


def test_a_fixed_reward_model_needs_neither_network_nor_train() -> None:
    class Negated(RewardModel):
        def relabel(self, block: dict[str, Any]) -> dict[str, Any]:
            return {**block, "reward": -block["reward"]}

    model = build(Negated)
    assert model.process(make_block())["reward"].tolist() == [[-1.0, -2.0], [-3.0, -4.0]]
    model.load_state_dict(model.state_dict())
    assert model.networks == []


def test_the_next_observation_is_the_true_one_where_an_episode_ended() -> None:
    block = make_block()
    expected = torch.stack([torch.stack([block["final_obs"][0], block["obs"][1, 1]]), block["last_obs"]])
    assert torch.equal(next_obs(block), expected)
    nested = {key: {"x": block[key]} for key in ("obs", "last_obs", "final_obs")}
    assert torch.equal(next_obs({**nested, "final_index": block["final_index"]})["x"], expected)
    del block["final_obs"], block["final_index"]
    assert torch.equal(next_obs(block)[0], block["obs"][1])

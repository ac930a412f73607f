"""Networks act in evaluation mode and learn in training mode, whatever the policy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy import DQNPolicy
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.distributed import parity
from tests.policy.helpers import OBS, make_batch, make_cfg, make_policy, parameter_hash, same

OURS = sorted(name for name, cls in POLICY_REGISTRY.items() if cls.__module__.startswith("ding_lite."))
ACTING = ("collect", "eval")


class Front(nn.Module):
    """A network behind layers that do not act as they learn."""

    def __init__(self, network: nn.Module, size: int = 4) -> None:
        super().__init__()
        self.front = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(size))
        self.network = network

    def forward(self, obs: Tensor, **kwargs: Any) -> Any:
        flat = obs.flatten(0, -2)
        return self.network(self.front(flat).view_as(obs), **kwargs)


def create(name: str) -> tuple[EasyDict, Any]:
    """Return the config of a policy's first kind of action, and the policy with a `Front` before each network."""
    policy_cls: Any = POLICY_REGISTRY[name]
    kind = next(kind for kind, space in parity.SPACES.items() if isinstance(space, policy_cls.action_spaces))
    cfg = parity.compile_problem(name, kind, parity.SEQUENCES.get(name, []))
    cfg.policy.learn.batch_size = 10**6
    model = copy.deepcopy(policy_cls(cfg.policy, enable_field=()).model)
    parts = [part for part in getattr(policy_cls, "networks", ()) if hasattr(model, part)]
    for part in parts:
        setattr(model, part, Front(getattr(model, part)))
    return cfg, policy_cls(cfg.policy, (model if parts else Front(model)).double())


def act(policy: Any, mode: str) -> dict[str, Any]:
    """Act on fixed observations with fixed draws."""
    torch.manual_seed(0)
    getattr(policy, f"{mode}_mode").reset()
    obs = np.random.default_rng(0).normal(size=(6, 4))
    kwargs = policy.collect_mode.get_collect_kwargs(0) if mode == "collect" else {}
    return getattr(policy, f"{mode}_mode").forward(obs, **kwargs)


def leaves(output: Any) -> list[Tensor]:
    return [each for value in output.values() for each in (leaves(value) if isinstance(value, dict) else [value])]


def batches_of(cfg: EasyDict, policy: Any) -> list[dict[str, Any]]:
    torch.manual_seed(1)
    block = parity.collect_block(cfg)
    samples = policy.collect_mode.get_train_sample(block)
    if policy.pipeline == "serial_pipeline_onpolicy":
        return list(policy.learn_mode.get_batches(samples))
    return [parity.replay_everything(cfg, samples, parity.NUM_ENVS)]


@pytest.mark.parametrize("name", OURS)
def test_acting_is_deterministic_and_changes_nothing(name: str) -> None:
    cfg, policy = create(name)
    for _ in range(2):  # new, and after learning
        before = parameter_hash(policy.model)
        for mode in ACTING:
            first, second = leaves(act(policy, mode)), leaves(act(policy, mode))
            assert same(first, second)
            assert parameter_hash(policy.model) == before
        for batch in batches_of(cfg, policy)[:1]:
            assert parameter_hash(policy.model) == before  # preparing batches changes nothing either
            policy.learn_mode.forward(batch)
        assert parameter_hash(policy.model) != before


@pytest.mark.parametrize("name", OURS)
def test_learning_is_in_training_mode_also_after_acting(name: str) -> None:
    cfg, policy = create(name)
    norms = [part.front[1] for part in policy.model.modules() if isinstance(part, Front)]
    batch = batches_of(cfg, policy)[0]
    for mode in ACTING:
        act(policy, mode)
        counts = [int(norm.get_buffer("num_batches_tracked")) for norm in norms]
        for _ in range(2):  # TD3 steps its actor at every second one
            policy.learn_mode.forward(batch)
        now = [int(norm.get_buffer("num_batches_tracked")) for norm in norms]
        assert all(after > before for after, before in zip(now, counts, strict=True))


def test_a_loss_that_a_user_computes_is_in_training_mode() -> None:
    policy = make_policy(model=Front(make_policy().model, OBS))
    policy.eval_mode.forward(np.zeros((3, OBS), np.float32))
    losses = {float(policy.learn_mode.loss(make_batch(8))[0].detach()) for _ in range(5)}
    assert len(losses) == 5  # dropout


def test_noisy_layers_explore_in_collecting_alone() -> None:
    policy, obs = make_policy("noisy_net=True"), np.zeros((3, OBS), np.float32)
    collected = [policy.collect_mode.forward(obs)["logit"] for _ in range(2)]
    evaluated = [policy.eval_mode.forward(obs)["logit"] for _ in range(2)]
    assert not torch.equal(*collected)
    assert torch.equal(*evaluated)


class Own(DQNPolicy):
    """Has a train method of its own in its model, as one that freezes its statistics."""

    def _create_model(self) -> nn.Module:
        model = super()._create_model()
        model.encoder.__class__ = type("Frozen", (type(model.encoder),), {"train": lambda self, mode: self})
        return model


def test_a_modules_own_train_method_is_called() -> None:
    policy = Own(make_cfg())
    policy.collect_mode.forward(np.zeros((3, OBS), np.float32))
    modes = {name: part.training for name, part in policy.model.named_modules()}
    assert modes["encoder"]
    assert not modes[""]
    assert not modes["head"]


class Drawing(DQNPolicy):
    """Needs noise for its loss."""

    def _draw_noise(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"shift": torch.ones(len(batch["action"])) * 5}

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        loss, _ = super()._loss(batch)
        return loss, {"noise": batch["noise"]["shift"]}


def test_the_noise_of_a_loss_comes_with_the_batch() -> None:
    policy, batch = Drawing(make_cfg()), make_batch(8)
    assert policy.learn_mode.forward(batch)["noise"].tolist() == [5] * 8
    assert policy.learn_mode.loss(batch)[1]["noise"].tolist() == [5] * 8
    assert "noise" not in batch


def test_a_policy_remembers_nothing_of_its_episodes_by_default() -> None:
    mode = make_policy().collect_mode
    assert mode.state_dict() == {}
    mode.load_state_dict({})

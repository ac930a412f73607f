"""Networks act in evaluation mode and learn in training mode, whatever the policy."""

from __future__ import annotations

import copy
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy import DQNPolicy, Policy
from ding_lite.utils.key import declared_keys
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.distributed import parity
from tests.policy.helpers import (
    OBS,
    OURS,
    batches_of,
    compile_for,
    make_batch,
    make_cfg,
    make_policy,
    parameter_hash,
    same_tree,
)

ACTING = ("collect", "eval")


class Front(nn.Module):
    """A network behind layers that do not act as they learn."""

    def __init__(self, network: nn.Module, size: int = 4) -> None:
        super().__init__()
        self.front = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(size))
        self.network = network

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name) if name in ("front", "network") else getattr(self.network, name)

    def forward(self, obs: Any, **kwargs: Any) -> Any:
        if isinstance(obs, dict):  # sequences, for a network with a memory, or observations of agents
            key = parity.features_key(obs)
            return self.network({**obs, key: self._pass(obs[key])}, **kwargs)
        return self.network(self._pass(obs), **kwargs)

    def _pass(self, obs: Tensor) -> Tensor:
        seen = obs[..., : self.front[1].num_features]
        return torch.cat([self.front(seen.flatten(0, -2)).view_as(seen), obs[..., seen.shape[-1] :]], -1)


def create(name: str) -> tuple[EasyDict, Any]:
    """Return the config of a policy's first kind of action, and the policy with a `Front` before each network."""
    policy_cls: Any = POLICY_REGISTRY[name]
    cfg = compile_for(name)
    cfg.policy.learn.batch_size = 10**6
    if "value_norm" in cfg.policy.learn:
        cfg.policy.learn.value_norm = False  # preparing batches changes the units of the value, see `ValueUnits`
    model = copy.deepcopy(policy_cls(cfg.policy, enable_field=()).model)
    return cfg, policy_cls(cfg.policy, parity.wrapped(model, Front).double())


def act(name: str, policy: Any, mode: str) -> dict[str, Any]:
    """Act on fixed observations with fixed draws."""
    torch.manual_seed(0)
    policy.reset(explore=mode == "collect")
    kwargs = policy.begin_collect(0) if mode == "collect" else {}
    return policy.act(parity.observations(name, 6), mode == "collect", **kwargs)


def test_a_policy_is_at_most_two_classes_below_the_base_class() -> None:
    """A class that has only keys of its own, and no method, does not count: there is nothing to read in it."""

    def depth(cls: type) -> int:
        has_methods = any(isinstance(value, FunctionType | classmethod | property) for value in vars(cls).values())
        bases = [base for base in cls.__bases__ if issubclass(base, Policy)]
        return 0 if cls is Policy else has_methods + max(map(depth, bases))

    assert [name for name in OURS if depth(POLICY_REGISTRY.find(name)) > 2] == []


def test_a_policy_has_the_keys_of_its_source_of_samples_alone() -> None:
    of_sources = {"replay": "other.replay_buffer.replay_buffer_size", "dataset": "collect.data_path"}
    for name in OURS:
        keys, source = declared_keys(POLICY_REGISTRY.find(name)), POLICY_REGISTRY.find(name).learns_from
        assert [key in keys for key in of_sources.values()] == [each == source for each in of_sources], name
        assert ("random_collect_size" in keys) == ("learn.update_per_collect" in keys) == (source == "replay"), name


@pytest.mark.parametrize("name", OURS)
def test_acting_is_deterministic_and_changes_nothing(name: str) -> None:
    cfg, policy = create(name)
    for _ in range(2):  # new, and after learning
        before = parameter_hash(policy.model)
        for mode in ACTING:
            assert same_tree(act(name, policy, mode), act(name, policy, mode))
            assert parameter_hash(policy.model) == before
        batch = next(batches_of(policy, cfg, parity.collect_block(cfg)))
        assert parameter_hash(policy.model) == before  # preparing batches changes nothing either
        policy.learn(batch)
        assert parameter_hash(policy.model) != before


@pytest.mark.parametrize("name", OURS)
def test_learning_is_in_training_mode_also_after_acting(name: str) -> None:
    cfg, policy = create(name)
    norms = [part.front[1] for part in policy.model.modules() if isinstance(part, Front)]
    batches = list(batches_of(policy, cfg, parity.collect_block(cfg)))  # of HAPPO, each agent has its own
    for mode in ACTING:
        act(name, policy, mode)
        counts = [int(norm.get_buffer("num_batches_tracked")) for norm in norms]
        for batch in 2 * batches:  # TD3 steps its actor at every second one
            policy.learn(batch)
        now = [int(norm.get_buffer("num_batches_tracked")) for norm in norms]
        assert all(after > before for after, before in zip(now, counts, strict=True))


def test_a_loss_that_a_user_computes_is_in_training_mode() -> None:
    policy = make_policy(model=Front(make_policy().model, OBS))
    policy.act(np.zeros((3, OBS), np.float32), explore=False)
    losses = {float(policy.loss(make_batch(8))[0].detach()) for _ in range(5)}
    assert len(losses) == 5  # dropout


class Own(DQNPolicy):
    """Has a train method of its own in its model, as one that freezes its statistics."""

    def _create_model(self) -> nn.Module:
        model = super()._create_model()
        model.encoder.__class__ = type("Frozen", (type(model.encoder),), {"train": lambda self, mode: self})
        return model


def test_a_modules_own_train_method_is_called() -> None:
    policy = Own(make_cfg())
    policy.act(np.zeros((3, OBS), np.float32))
    modes = {name: part.training for name, part in policy.model.named_modules()}
    assert modes["encoder"]
    assert not modes[""]
    assert not modes["head"]

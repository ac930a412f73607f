"""What losses read besides their batches is seen to change, so that no graph with an old value is replayed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.gpu.reads import Reads, bound_values, freeze
from ding_lite.policy import DQNPolicy
from ding_lite.torch_utils.gradient import EagerGradient
from ding_lite.torch_utils.optimizer_step import OptimizerStep
from tests.distributed import parity
from tests.policy.helpers import OURS, batches_of, compile_for, make_batch, make_cfg


class Reader(DQNPolicy):
    """Its loss reads all kinds of values."""

    default = 1.0

    def _init_learn(self) -> None:
        super()._init_learn()
        self.number, self.word, self.nothing, self.switch = 1.0, "mean", None, False
        self.numbers, self.table, self.statistic = [1.0], {"a": [1.0]}, torch.ones(1)
        self._model.__dict__["temperature"], self.unread = 1.0, 1.0

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        loss, figures = super()._loss(batch)
        word, table = getattr(self, "word"), scale_of(self)  # noqa: B009 (read by a text)
        used = (self.number, word, self.nothing, self.switch, self.numbers, table, self.statistic, self.default)
        return loss * len((*used, self.iteration, self._model.temperature, self._cfg.learn["target_theta"])), figures


def scale_of(policy: Any) -> Any:
    return policy.table


CHANGES: dict[str, Callable[[Any], Any]] = {
    "iteration": lambda policy: policy.schedules.count_iteration(),
    "number": lambda policy: setattr(policy, "number", 2.0),
    "string": lambda policy: setattr(policy, "word", "sum"),
    "None": lambda policy: setattr(policy, "nothing", 1.0),
    "bool": lambda policy: setattr(policy, "switch", True),
    "list in place": lambda policy: policy.numbers.append(2.0),
    "dict of lists in place": lambda policy: policy.table["a"].append(2.0),
    "another tensor": lambda policy: setattr(policy, "statistic", policy.statistic + 1),
    "default of the class": lambda policy: setattr(policy, "default", 2.0),
    "attribute of the network": lambda policy: setattr(policy.model, "temperature", 2.0),
    "key of the config": lambda policy: policy.current_config.learn.update(target_theta=0.1),
    "another network": lambda policy: setattr(policy, "_target_model", policy.model),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_value_that_a_loss_reads_is_seen_to_change(what: str) -> None:
    policy, batch = Reader(make_cfg()), make_batch(8) | {"noise": {}}
    reads = Reads(*bound_values(policy._loss))
    assert reads.watch(policy._loss, batch)[0] == policy._loss(batch)[0]
    before = reads.values()
    policy.unread = 2.0
    policy._figures["epsilon"] = torch.ones(())
    policy.learn(batch)
    policy.schedules.load_state_dict({"iteration": 0})
    assert reads.values() == before
    CHANGES[what](policy)
    assert reads.values() != before


def test_bound_values_tell_losses_apart() -> None:
    policy, other = (DQNPolicy(make_cfg()) for _ in range(2))
    loss: Any = policy._loss
    losses: list[Callable[[], Any]] = [
        lambda: policy._loss,
        lambda: other._loss,
        lambda: policy.loss,
        lambda: partial(loss, 1),
        lambda: partial(loss, 2),
        lambda: partial(loss, weights=[1.0]),
        lambda: partial(loss, weights=[2.0]),
        *(lambda n=n: lambda batch: policy.loss(batch)[n] for n in range(2)),
    ]
    keys = [freeze(bound_values(loss())) for loss in losses]
    assert keys == [freeze(bound_values(loss())) for loss in losses], "they are made anew, from the same parts"
    assert len(set(keys)) == len(losses)


class Watched(EagerGradient):
    """Takes the place of graphs in an optimizer's step: keeps what each loss reads before every call."""

    def __init__(self, step: OptimizerStep, cfg: Any) -> None:
        super().__init__(step.network, cfg, step.flat, step.check)
        self.reads: dict[Any, Reads] = {}
        self.seen: dict[Any, list[Any]] = {}

    def function(self, loss_of: Any) -> Any:
        return partial(self._watch, loss_of)

    def _watch(self, loss: Any, batch: dict[str, Any]) -> Any:
        bound = bound_values(loss)
        key = freeze(bound)
        reads = self.reads.setdefault(key, Reads(*bound))
        values = reads.values()
        output = reads.watch(loss, batch)
        self.seen.setdefault(key, []).append(values)
        return output


@pytest.mark.parametrize("name", OURS)
def test_what_a_loss_of_the_package_reads_stays_the_same(name: str) -> None:
    """Otherwise, a GPU would capture it again and again."""
    cfg = compile_for(name)
    policy = parity.create_policy(cfg)
    watched = [Watched(step, cfg.policy) for step in policy._optimizers.values()]
    for step, own in zip(policy._optimizers.values(), watched, strict=True):
        step.gradient = own
    block = parity.collect_block(cfg)
    for envstep in range(3):
        policy.begin_collect(envstep)
        for batch in batches_of(policy, cfg, block):
            policy.learn(batch)
    for own in watched:
        for seen in own.seen.values():
            assert len(set(seen[1:])) <= 1

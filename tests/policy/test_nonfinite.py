"""A loss or gradient that is not finite: reported, and without effect. Several ranks: tests/distributed."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.policy import DQNPolicy
from ding_lite.torch_utils.nonfinite import NonFiniteError, StepCheck, describe
from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.registry import POLICY_REGISTRY, UserError
from ding_lite.worker import Learner
from tests.distributed import parity
from tests.policy.helpers import OURS, batches_of, compile_for, make_batch, make_cfg, make_policy, same

SKIP = "learn.on_nonfinite=skip"
REWARDED = [name for name in OURS if "reward" in getattr(POLICY_REGISTRY[name], "required_columns", ["reward"])]
REWARDED.remove("dt")  # its data set refuses such a reward
REWARDED.remove("distill")  # it learns from no rewards


def make_bad(size: int = 8, seed: int = 0, value: float = math.nan) -> dict[str, Tensor]:
    batch = make_batch(size, seed)
    batch["reward"][2] = value
    return batch


def everything(policy: Any) -> list[Tensor]:
    """Return copies of parameters, moments and step counts."""
    moments = [value for state in policy._optimizer.optimizers[""].state.values() for value in state.values()]
    return [
        value.detach().clone() for value in (policy._optimizer.flat.parameter, *moments) if isinstance(value, Tensor)
    ]


def trained(*overrides: str) -> DQNPolicy:
    torch.manual_seed(0)
    policy = make_policy(*overrides)
    policy.learn(make_batch(8, 1))
    return policy


class Lagging(StepCheck):
    """Decides as for a GPU: the optimizer gets the verdict, and the next step reads it."""

    @staticmethod
    def _lags(norm: Tensor, optimizers: Collection[torch.optim.Optimizer]) -> bool:
        return True


def lagging(*overrides: str) -> DQNPolicy:
    policy = trained(*overrides)
    policy._optimizer.check = Lagging(policy.current_config.learn.on_nonfinite, policy.model)
    return policy


class Altered(DQNPolicy):
    """Adds a number to its loss, a root of 0 whose gradient is not finite."""

    shift, root = 0.0, False

    def _loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        loss, figures = super()._loss(batch)
        roots = (next(self._model.parameters()) * 0).sqrt().sum() if self.root else 0.0
        return loss + self.shift + roots, figures


def altered(*overrides: str, **changes: Any) -> Altered:
    policy = Altered(make_cfg(*overrides))
    for name, value in changes.items():
        setattr(policy, name, value)
    return policy


def test_the_error_names_iteration_figures_batch_and_gradients() -> None:
    policy = trained()
    before = everything(policy)
    learner = Learner(policy, 100, lambda values: None)
    learner.train_iter = 521
    bad = make_bad(value=-math.inf)
    with pytest.raises(NonFiniteError) as caught:
        learner.train([make_batch(8, 2), bad])
    assert isinstance(caught.value, UserError)
    message = str(caught.value)
    assert message.startswith(
        "Iteration 523: the loss is inf (priority has 1 inf of 8); batch: reward has 1 inf of 8; "
    )
    name = next(name for name, _ in policy.model.named_parameters())
    assert f"first gradients that are not finite: {name}, " in message
    assert "on_nonfinite='skip'" in message
    assert "\n" not in message
    assert caught.value.batch.keys() == bad.keys() | {"noise"}
    assert all(torch.equal(caught.value.batch[key], bad[key]) for key in bad)
    assert learner.train_iter == 522
    policy = trained()
    policy.learn(make_batch(8, 2))
    assert not same(everything(policy), before)


@pytest.mark.parametrize("clip", ["None", "clip_norm", "clip_value"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("mode", ["stop", "skip"])
@pytest.mark.parametrize("make", [trained, lagging])
@pytest.mark.filterwarnings("ignore:An update was skipped")
def test_a_step_that_is_not_finite_has_no_effect(make: Any, mode: str, value: float, clip: str) -> None:
    # 1e30 squared is more than float32 holds
    policy = make(f"learn.on_nonfinite={mode}", f"learn.grad_clip_type={clip}", "learn.weight_decay=0.1")
    before = everything(policy)
    learner = Learner(policy, 100, lambda values: None)
    if mode == "stop":
        with pytest.raises(NonFiniteError):
            learner.train([make_bad(value=value)])
    else:
        learner.train([make_bad(value=value)])
    assert same(everything(policy), before)


@pytest.mark.parametrize("make", [trained, lagging])
@pytest.mark.filterwarnings("ignore:An update was skipped")
def test_training_goes_on_as_if_a_skipped_batch_had_not_been(make: Any) -> None:
    policy, other = make(SKIP), make(SKIP)
    good = [make_batch(8, seed) for seed in range(2, 6)]
    Learner(policy, 100, lambda values: None).train([*good[:2], make_bad(), make_bad(), *good[2:], make_bad()])
    Learner(other, 100, lambda values: None).train(good)
    assert same(everything(policy), everything(other))
    assert (policy._optimizer.check.skipped, other._optimizer.check.skipped) == (3, 0)


def test_the_first_skipped_update_is_warned_of_and_all_are_counted_in_the_log() -> None:
    reports: list[dict[str, float]] = []
    policy = trained(SKIP)
    learner = Learner(policy, 1, reports.append)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner.train([make_batch(8, 2), make_bad(), make_bad(), make_batch(8, 3)])
    assert [str(warning.message)[:38] for warning in caught] == ["An update was skipped: the loss is nan"]
    assert [report.get("skipped_updates") for report in reports] == [None, 1, 2, 2]
    other = trained(SKIP)
    other.load_state_dict(copy.deepcopy(policy.state_dict()))
    assert other._optimizer.check.skipped == 2


def test_a_gradient_alone_is_enough() -> None:
    policy = altered(root=True)
    first, second, *_ = (name for name, _ in policy.model.named_parameters())
    with pytest.raises(NonFiniteError) as caught:
        policy.learn(make_batch(8))
    assert "the loss is finite, its gradient is not; first gradients" in str(caught.value)
    assert f"not finite: {first} (1 of " in str(caught.value)
    assert second not in str(caught.value)


def test_a_loss_alone_is_enough() -> None:
    policy = altered(shift=math.inf)  # which the gradient does not show
    before = everything(policy)
    with pytest.raises(NonFiniteError) as caught:
        policy.learn(make_batch(8))
    assert caught.value.detail == "the loss is inf"
    assert same(everything(policy), before)


@pytest.mark.parametrize(("good_after", "clip"), [(0, "None"), (1, "None"), (3, "clip_norm")])
def test_with_a_lag_the_error_is_of_the_step_that_it_is_about(good_after: int, clip: str) -> None:
    policy = lagging(f"learn.grad_clip_type={clip}")
    learner = Learner(policy, 100, lambda values: None)
    with pytest.raises(NonFiniteError) as caught:
        learner.train([make_batch(8, 2), make_bad(), *(make_batch(8, seed) for seed in range(good_after))])
    assert str(caught.value).startswith(
        "Iteration 2: the loss is nan (priority has 1 nan of 8); batch: reward has 1 nan"
    )
    assert torch.equal(caught.value.batch["obs"], make_bad()["obs"])


def test_the_batch_is_saved_without_what_it_is_a_view_of(tmp_path: Path) -> None:
    policy, path = trained(), tmp_path / "nonfinite" / "iteration_1.pth.tar"
    large = {key: value[:8] for key, value in make_bad(100_000).items()}
    with pytest.raises(NonFiniteError) as caught:
        Learner(policy, 100, lambda values: None).train([large])
    error = caught.value.saved(str(path))
    assert error is caught.value
    assert f" The batch is saved in '{path}'. " in str(error)
    state = load_checkpoint(str(path))
    assert (state["iteration"], state["detail"]) == (1, error.detail)
    assert all(torch.equal(state["batch"][key].nan_to_num(), large[key].nan_to_num()) for key in large)
    assert path.stat().st_size < 20_000


def test_what_is_not_finite_is_described_in_nested_dicts() -> None:
    data = {
        "obs": {"image": torch.tensor([[1.0, math.nan], [math.inf, -math.inf]]), "text": torch.ones(2)},
        "index": torch.arange(3),
        "done": torch.tensor([True]),
        "value": torch.tensor(math.nan),
    }
    assert describe(data) == ["obs.image has 1 nan and 2 inf of 4", "value is nan"]


@pytest.mark.parametrize("name", REWARDED)
@pytest.mark.filterwarnings("ignore:An update was skipped")
def test_every_policy_recovers_from_a_reward_that_is_not_finite(name: str) -> None:
    cfg = compile_for(name, f"policy.{SKIP}")
    cfg.policy.learn.batch_size = 10**6
    policy, block = parity.create_policy(cfg), parity.collect_block(cfg)
    learner = Learner(policy, 1000, lambda values: None)
    bad = copy.deepcopy(block)
    bad["reward"][3] = math.inf
    optimizers = policy._optimizers.values()
    before = [one.flat.parameter.detach().clone() for one in optimizers]
    learner.train(batches_of(policy, cfg, bad))
    skipped = [one.check.skipped for one in optimizers]
    assert max(skipped) == learner.train_iter > 0
    affected = [(one.flat, old) for one, old, count in zip(optimizers, before, skipped, strict=True) if count]
    assert all(torch.equal(flat.parameter, old) for flat, old in affected)
    learner.train(batches_of(policy, cfg, block))
    assert [one.check.skipped for one in optimizers] == skipped
    assert all(one.flat.parameter.isfinite().all() for one in optimizers)
    assert not any(torch.equal(flat.parameter, old) for flat, old in affected)

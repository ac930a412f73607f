"""C51's support, and targets at its ends."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ding_lite.model import C51DQN
from ding_lite.policy import C51Policy
from ding_lite.utils.registry import ConfigError
from tests.policy.helpers import ACTIONS, OBS, make_policy
from tests.policy.value.test_losses import table_batch, table_policy

LN = math.log


def test_targets_beyond_the_support_are_a_logged_figure() -> None:
    policy = table_policy("c51")
    _, output = policy.loss(table_batch("c51", reward=torch.tensor([3.5, -1.0])))
    # 3.5 and 4.5, each with 1/2; -1 alone
    assert output["clipped_share"].tolist() == pytest.approx([0.5, 1.0])
    assert "clipped_share" in policy.monitor_vars()


def test_a_model_of_another_support_is_refused() -> None:
    model = C51DQN(OBS, ACTIONS, [16, 8], v_min=0.0, v_max=200.0)
    with pytest.raises(ConfigError, match=r"v_min=-10\.0, but the model has v_min=0\.0: set policy\.model\.v_min=0\.0"):
        make_policy(model=model, kind="c51")
    make_policy("model.v_min=0.0", "model.v_max=200.0", model=model, kind="c51")
    with pytest.raises(ConfigError, match="must be smaller"):
        C51DQN(OBS, ACTIONS, v_min=1.0, v_max=-1.0)


def test_a_probability_that_is_rounded_to_zero_still_learns_from_its_logarithm() -> None:
    # exp(-200) is 0 in float32. The targets are 1/4, 3/4, 0 and 0, 1/2, 1/2, for the atoms 0, 2, 4.
    logits = torch.tensor([0.0, -200.0, -200.0]).repeat(2, 2, 1).requires_grad_()
    online = {"log_distribution": logits.log_softmax(-1), "distribution": logits.softmax(-1), "logit": logits[..., 0]}
    target = {"distribution": torch.tensor([0.5, 0.5, 0.0]).expand(2, 2, 3)}
    batch = table_batch("c51", reward=torch.tensor([1.0, 3.0])) | {"noise": {}}
    policy: Any = SimpleNamespace(_model=None, _support=(0.0, 4.0), _run=lambda *args, **noise: online)
    policy._next_outputs = lambda batch: (target, torch.tensor([0, 0]))
    loss, _ = C51Policy._loss(policy, batch)
    assert loss.item() == pytest.approx((0.75 * 200 + 200) / 2)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad[1, 0].tolist() == pytest.approx([0.5, -0.25, -0.25])
    del online["log_distribution"]  # of a model without it: finite, but without this gradient
    assert C51Policy._loss(policy, batch)[0].isfinite()

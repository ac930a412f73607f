"""Losses of soft Q-learning, by hand and against loops over samples and actions."""

from __future__ import annotations

import pytest
import torch

from ding_lite.rl_utils import (
    soft_policy_value,
)


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match="the same shape"):
        soft_policy_value(torch.zeros(2, 5, 3), torch.zeros(5, 3), 0.5)

"""The config keys of an optimizer, which policies and reward models have in common."""

from __future__ import annotations

from typing import Any

from ding_lite.utils.key import Key

OPTIMIZER_KEYS: dict[str, Any] = dict(
    learning_rate=Key(0.001, "step size of Adam", low=0, high=10**6),
    adam_eps=Key(
        1e-8,
        "Adam's epsilon: where gradients are smaller than it, steps shrink with them",
        low=0,
        high=1,
    ),
    weight_decay=Key(0.0, "L2 penalty of Adam", low=0, high=10**6),
    grad_clip_type=Key(
        None,
        "'clip_norm' or 'clip_value', applied to the averaged gradient",
        choices=(None, "clip_norm", "clip_value"),
    ),
    grad_clip_value=Key(0.5, "bound of the gradient's norm or of its elements", low=0),
)

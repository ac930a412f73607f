"""Exploration by noisy layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from ding_lite.model.network import NoisyLinear


@contextmanager
def explore(module: nn.Module) -> Iterator[None]:
    """Let every noisy layer inside the module draw noise within the block, though it is in evaluation mode."""
    layers = [part for part in module.modules() if isinstance(part, NoisyLinear)]
    before = [layer.training for layer in layers]
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer, training in zip(layers, before, strict=True):
            layer.training = training

"""Switches networks: to training or evaluation mode, for all that follows or for a block, and to frozen parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


def set_training(modules: list[nn.Module], training: bool) -> None:
    """Set training or evaluation mode of the modules that are not in it, ten times faster than `module.train`."""
    for module in modules:
        if module.training != training:
            _set_training(module, training)


def _set_training(module: nn.Module, training: bool) -> None:
    if type(module).train is not nn.Module.train:
        module.train(training)
        return
    module.__dict__["training"] = training
    for child in module._modules.values():
        if child is not None:
            _set_training(child, training)


@contextmanager
def evaluated(network: nn.Module) -> Iterator[None]:
    """Inside this block, a network is in evaluation mode: running statistics normalise batches, and nothing is dropped.

    A loss that passes through a network which it does not train runs it so. The batch's own statistics would hide what
    all samples have in common, such as a shift of their actions, and would enter the running ones.
    """
    training = network.training
    set_training([network], False)
    try:
        yield
    finally:
        set_training([network], training)


@contextmanager
def frozen(network: nn.Module) -> Iterator[None]:
    """Inside this block, gradients flow through a network to its inputs, but not to its parameters."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if torch.compiler.is_compiling():  # a compiled loss is differentiated with respect to chosen parameters only
        parameters = []
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)

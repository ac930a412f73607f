"""Switches networks: training or evaluation mode, frozen parameters, and the number type of their passes.

That type is float32, or bfloat16 where the machine multiplies in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

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


def is_traced() -> bool:
    """Return whether torch follows this call, to compile it or to compute it for several policies at once.

    Then the values of tensors cannot be read, and gradients flow to chosen parameters only.
    """
    return torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None


@contextmanager
def frozen(network: nn.Module) -> Iterator[None]:
    """Inside this block, gradients flow through a network to its inputs, but not to its parameters."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if is_traced():
        parameters = []
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


def multiplies_bf16(device: torch.device) -> bool:
    """Return whether a device has instructions for bfloat16; without them, float32 is faster."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))  # the last is ARM's


def find_precision(wanted: str, device: torch.device) -> str:
    """Return 'float32' or 'bf16' for a value of `policy.precision`; 'auto' is bf16 where it exists."""
    if wanted != "auto":
        return wanted
    return "bf16" if multiplies_bf16(device) else "float32"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Return a context manager in which forward passes have a precision that `find_precision` returned.

    On a GPU it keeps no converted weights, which a replayed graph would not convert again.
    """
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=device.type == "cpu")

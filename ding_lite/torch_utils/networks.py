"""Finds all networks of a policy, wherever it keeps them, keeps them identical on all ranks, and compares them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ding_lite.torch_utils.running_stat import RunningMeanStd
from ding_lite.utils.ranks.collectives import all_gather_object, allreduce_data, get_world_size
from ding_lite.utils.registry import UserError

SMALL = 100_000  # parameters; below, several threads take longer than one, above all on a busy machine
CLOSED = ("builtins", "torch", "numpy", "gymnasium", "functools", "types")  # packages whose objects are not searched
MIXER = 0x9E3779B97F4A7C15 - 2**64  # an odd number from the golden ratio, whose multiples look random
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # integer types by their size in bytes


def synchronize_batchnorm(model: nn.Module) -> nn.Module:
    """Return the model with torch's SyncBatchNorm as its batch normalisation, which uses the samples of all ranks.

    While gradients are disabled, ranks act independently, and the layers use their running statistics.
    """
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for module in model.modules():
        if isinstance(module, nn.SyncBatchNorm):
            module.register_forward_pre_hook(lambda module, _: module.train(torch.is_grad_enabled()) and None)
    return model


def modules_of(policy: Any) -> list[nn.Module]:
    """Return the networks that an object holds, in the same order on every rank, without those inside another one.

    They may be attributes, elements of dicts, lists and tuples, or inside helper objects such as `TargetNetwork`, at
    any depth. Sets are not searched, because they have no order.
    """
    found: dict[int, nn.Module] = {}
    for module in _walk(policy, set()):
        found.setdefault(id(module), module)
    inner = {id(part) for module in found.values() for part in module.modules() if part is not module}
    return [module for number, module in found.items() if number not in inner]


def _walk(value: Any, seen: set[int]) -> Iterator[nn.Module]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, nn.Module):
        if not isinstance(value, DistributedDataParallel):  # the wrapped network is found elsewhere
            yield value
        return
    inside: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inside = value.values()
    elif isinstance(value, list | tuple | deque):
        inside = value
    elif type(value).__module__.partition(".")[0] in CLOSED:
        return
    for each in (*inside, *getattr(value, "__dict__", {}).values()):
        yield from _walk(each, seen)


def is_small(network: nn.Module) -> bool:
    """Return whether one thread is enough for a network: it has few parameters, and no convolutions."""
    parameters = list(network.parameters())
    return sum(each.numel() for each in parameters) < SMALL and all(each.ndim <= 2 for each in parameters)


def drifting_buffers(modules: list[nn.Module]) -> list[Tensor]:
    """Return the buffers that each rank updates from its own samples, such as the statistics of batch normalisation.

    Those of `RunningMeanStd` are not among them, because it merges the samples of all ranks; with one process none are.
    """
    if get_world_size() == 1:
        return []
    parts = {id(part): part for module in modules for part in module.modules()}
    owners = [part for part in parts.values() if not isinstance(part, RunningMeanStd)]
    buffers = {id(each): each for part in owners for each in part.buffers(recurse=False) if each.is_floating_point()}
    return list(buffers.values())


@torch.no_grad()
def average_buffers(buffers: list[Tensor]) -> None:
    """Replace each buffer by its mean over all ranks, in one collective."""
    means = allreduce_data({str(number): buffer for number, buffer in enumerate(buffers)}, op="mean")
    for number, buffer in enumerate(buffers):
        buffer.copy_(means[str(number)])


class RankDriftError(UserError):
    """The parameters or buffers of some ranks differ from those of the others; raised on every rank."""


def checksum_networks(modules: list[nn.Module]) -> tuple[int, int]:
    """Return the `checksum` of all parameters and buffers."""
    tensors = {id(tensor): tensor for module in modules for tensor in (*module.parameters(), *module.buffers())}
    return checksum(tensors.values())


@torch.no_grad()
def checksum(tensors: Iterable[Tensor]) -> tuple[int, int]:
    """Return two checksums of all elements, modulo 2^64, computed from their bits read as integers.

    The first is a plain sum, which any single changed bit changes. The second weights each element by a hash of its
    position, so it also changes when elements are exchanged.
    """
    plain, weighted, start = 0, 0, 1
    for tensor in tensors:
        bits = tensor.reshape(-1).view(INTEGERS[tensor.element_size()]).long()
        weight = torch.arange(start, start + len(bits), device=bits.device) * MIXER
        weight ^= weight >> 29  # with equally spaced weights, two exchanges could cancel each other
        plain += int(bits.sum())
        weighted += int((bits * weight).sum())
        start += len(bits)
    return plain % 2**64, weighted % 2**64


def check_ranks(value: tuple[int, int], iteration: int) -> None:
    """Raise a `RankDriftError` on every rank if the values of some ranks differ from the majority, or else rank 0's."""
    values = all_gather_object(value)
    usual = Counter(values).most_common(1)[0][0]  # among equally common values, the one of the lowest rank
    others = [str(rank) for rank, each in enumerate(values) if each != usual]
    if others:
        raise RankDriftError(
            f"Iteration {iteration}: the buffers or parameters of rank{'s' * (len(others) > 1)} {', '.join(others)} "
            f"differ from those of rank {values.index(usual)}, but must be identical. Either something changes them "
            "outside the averaged step, or the machines have different processors or libraries. To train "
            "nevertheless, set policy.learn.learner.hook.check_ranks_after_iter=0."
        )

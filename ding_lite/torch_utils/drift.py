"""Compares the parameters and buffers of all ranks, bit by bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

from ding_lite.utils.ranks.collectives import all_gather_object
from ding_lite.utils.registry import UserError

MIXER = 0x9E3779B97F4A7C15 - 2**64  # an odd number from the golden ratio, whose multiples look random
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by size in bytes


class RankDriftError(UserError):
    """The parameters or buffers of some ranks differ from those of the others; raised on every rank."""


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
    """Compare the checksums of all ranks; a collective call.

    Args:
        value: this rank's `checksum`.
        iteration: the learner iteration, for the message.

    Raises:
        RankDriftError: on every rank, if some ranks differ from the majority (from rank 0 if there is none).
    """
    values = all_gather_object(value)
    usual = Counter(values).most_common(1)[0][0]  # of several that are equally common, that of the lowest rank
    others = [str(rank) for rank, each in enumerate(values) if each != usual]
    if others:
        raise RankDriftError(
            f"Iteration {iteration}: the buffers or parameters of rank{'s' * (len(others) > 1)} {', '.join(others)} "
            f"differ from those of rank {values.index(usual)}, but must be identical. Either something changes them "
            "outside the averaged step, or the machines have different processors or libraries. To train "
            "nevertheless, set policy.learn.learner.hook.check_ranks_after_iter=0."
        )

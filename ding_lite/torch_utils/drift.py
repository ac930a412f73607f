"""Comparison of all ranks' parameters and buffers, to the last bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

from ding_lite.utils.dist.collectives import all_gather_object
from ding_lite.utils.registry import UserError

MIXER = 0x9E3779B97F4A7C15 - 2**64  # odd, from the golden ratio: its multiples look random
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


class RankDriftError(UserError):
    """The parameters or buffers of some ranks differ from those of the others; raised on every rank."""


@torch.no_grad()
def checksum(tensors: Iterable[Tensor]) -> tuple[int, int]:
    """Return the sum of the numbers' bits as integers, and a sum weighted by hashes of their places, modulo 2^64.

    Any changed bit changes the first sum. Exchanged numbers change only the second.
    """
    plain, weighted, start = 0, 0, 1
    for tensor in tensors:
        bits = tensor.reshape(-1).view(INTEGERS[tensor.element_size()]).long()
        weight = torch.arange(start, start + len(bits), device=bits.device) * MIXER
        weight ^= weight >> 29  # with equally spaced weights, two exchanges could cancel
        plain += int(bits.sum())
        weighted += int((bits * weight).sum())
        start += len(bits)
    return plain % 2**64, weighted % 2**64


def check_ranks(value: tuple[int, int], iteration: int) -> None:
    """Compare this rank's `checksum` with those of all others; a collective call.

    Raises:
        RankDriftError: on every rank; it names the ranks that differ from the majority, or else from rank 0.
    """
    values = all_gather_object(value)
    usual = Counter(values).most_common(1)[0][0]  # if several are equally common, that of the lowest rank
    others = [str(rank) for rank, each in enumerate(values) if each != usual]
    if others:
        raise RankDriftError(
            f"Iteration {iteration}: the buffers or parameters of rank{'s' * (len(others) > 1)} {', '.join(others)} "
            f"differ from those of rank {values.index(usual)}; all ranks must have the same bits. Something changes "
            "them outside the averaged step, or the machines' processors or libraries differ; "
            "policy.learn.learner.hook.check_ranks_after_iter=0 goes on all the same."
        )

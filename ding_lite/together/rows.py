"""What the joint computations of a family share: the tensors that have a row for each of its policies.

Shapes: K policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from ding_lite.policy import Policy


class Rows:
    """Policies of the same structure, and their common tensors.

    Attributes:
        policies: the policies, one for each row.
        networks: all networks of each.
        tensors: parameters and buffers by name `[K, ...]`. Those of the policies are views of their rows.
        known: ids of the policies' parameters and buffers.
        dtype: of the parameters.
    """

    def __init__(self, policies: Sequence[Policy]) -> None:
        self.policies, self.dtype = list(policies), policies[0]._dtype
        self.networks = [nn.ModuleList(policy._modules) for policy in policies]
        self.tensors: dict[str, Tensor] = {}
        members = [tensor for each in self.networks for tensor in (*each.parameters(), *each.buffers())]
        self.known = set(map(id, members))
        self._left = set(range(len(policies)))  # rows of the policies that are left

    @property
    def size(self) -> int:
        """The number of policies that are left."""
        return len(self._left)

    def has(self, row: int) -> bool:
        """Return whether the policy in a row is left."""
        return row in self._left

    @contextmanager
    def unchanged_buffers(self) -> Iterator[None]:
        """Return a context manager after which all buffers are as before."""
        buffers = [self.tensors[name] for name, _ in self.networks[0].named_buffers()]
        before = [buffer.clone() for buffer in buffers]
        yield
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)

    def are_most(self, number: int) -> bool:
        """Return whether it pays to compute jointly for a number of policies: several, and more than half of them."""
        return number > 1 and 2 * number > self.size

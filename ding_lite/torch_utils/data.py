"""The five dicts that travel between the parts of a run, by the names that signatures use.

Each is a plain dict of arrays or tensors, or of nested dicts of these. N environments, T steps, B samples.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

Row = dict[str, Any]  # one step of all environments `[N, ...]`, as a policy stores it: `obs`, `action`, `reward`, ...
Block = dict[str, Any]  # the rows of a collect `[T, N, ...]`, and what follows them, see `SampleCollector`
Batch = dict[str, Any]  # samples `[B, ...]`, or `[M, ...]` of a whole collect, or sequences, with the keys of a block
Output = dict[str, Any]  # what a network or a policy returns for observations: `action`, `logit`, `value`, ...
Figures = dict[str, Tensor]  # detached tensors whose means are logged, and `priority` `[B]` for replay

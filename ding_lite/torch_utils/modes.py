"""What workers see of a policy: three modes, each a set of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from torch import Tensor

Batch = dict[str, Any]
Loss = Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]


class Act(Protocol):
    """Chooses actions for a batch of observations."""

    def __call__(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        """Return a dict with `action` `[N, ...]` for observations `[N, ...]`."""


class Reset(Protocol):
    """Forgets what a policy remembers of the running episodes."""

    def __call__(self, env_id: np.ndarray | None = None) -> None:
        """Forget the episodes of these environments; None means all of them."""


@dataclass(frozen=True)
class LearnMode:
    """What a learner calls.

    Attributes:
        forward: takes one optimizer step on a batch and returns figures.
        loss: returns the loss of a batch and detached figures, and changes nothing.
        get_batches: yields the batches to learn from after a collect, for on-policy policies.
        finish: ends a series of steps, and raises what is wrong with the last one.
        checksum: returns a checksum of all parameters and buffers.
        monitor_vars: returns the names of the figures to log.
        state_dict: returns what learning has changed, the same on all ranks.
        load_state_dict: restores it.
    """

    forward: Callable[[Batch], dict[str, Tensor]]
    loss: Loss
    get_batches: Callable[[Batch], Iterator[Batch]]
    finish: Callable[[], None]
    checksum: Callable[[], tuple[int, int]]
    monitor_vars: Callable[[], list[str]]
    state_dict: Callable[[], dict[str, Any]]
    load_state_dict: Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class CollectMode:
    """What a collector calls.

    Attributes:
        forward: chooses actions, exploring; its keyword arguments come from `get_collect_kwargs`.
        process_transition: returns the row `[N, ...]` of the rollout block that one step makes.
        get_train_sample: turns a rollout block `[T, N, ...]` into samples.
        get_collect_kwargs: returns the keyword arguments of `forward` for a global env step.
        reset: forgets episodes.
        state_dict: returns what this rank alone remembers, such as a recurrent state.
        load_state_dict: restores it.
    """

    forward: Act
    process_transition: Callable[[Any, dict[str, Any], SimpleNamespace], dict[str, Any]]
    get_train_sample: Callable[[dict[str, Any]], dict[str, Any]]
    get_collect_kwargs: Callable[[int], dict[str, Any]]
    reset: Reset
    state_dict: Callable[[], dict[str, Any]]
    load_state_dict: Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class EvalMode:
    """What an evaluator calls.

    Attributes:
        forward: chooses the best actions.
        reset: forgets episodes.
    """

    forward: Act
    reset: Reset

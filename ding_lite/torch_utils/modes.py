"""The three modes of a policy, each a set of functions. Workers use a policy only through them.

Shapes: T steps, N environments, B samples.
"""

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
        """Return a dict with `action` `[N, ...]`, and whatever else the policy stores, for observations `[N, ...]`."""


class Reset(Protocol):
    """Clears a policy's memory of the running episodes, such as a recurrent state."""

    def __call__(self, env_id: np.ndarray | None = None) -> None:
        """Clear the memory of the environments with these numbers; None: of all."""


@dataclass(frozen=True)
class LearnMode:
    """The functions that a learner calls.

    Attributes:
        forward: takes one optimizer step on a batch `[B, ...]` and returns figures.
        loss: returns the loss of a batch and detached figures; it changes nothing.
        get_batches: yields the batches to learn from after a collect, for on-policy policies.
        finish: ends a series of steps; raises an error if the last one was not finite.
        checksum: returns a checksum of all parameters and buffers.
        monitor_vars: returns the names of the figures to log.
        state_dict: returns everything that learning changes; it is the same on all ranks.
        load_state_dict: restores that state.
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
    """The functions that a collector calls.

    Attributes:
        forward: chooses actions, with exploration; its keyword arguments come from `get_collect_kwargs`.
        process_transition: returns the row `[N, ...]` of the rollout block for one step.
        get_train_sample: turns a rollout block `[T, N, ...]` into samples.
        get_collect_kwargs: returns the keyword arguments of `forward` for a number of env steps of all ranks.
        reset: clears the memory of episodes.
        state_dict: returns the state of this rank alone, such as a recurrent state.
        load_state_dict: restores that state.
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
    """The functions that an evaluator calls.

    Attributes:
        forward: chooses actions without exploration.
        reset: clears the memory of episodes.
        load_state_dict: restores what acting needs, exploration too, from a state of the learn mode or from a dict with
            its `model` alone; for a policy that does not learn.
    """

    forward: Act
    reset: Reset
    load_state_dict: Callable[[dict[str, Any]], None]

"""What a recurrent policy remembers of running episodes while it acts. Shapes: N environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ding_lite.utils.tree import tree_map


class EpisodeState:
    """The recurrent state of each of N environments.

    Args:
        to_device: moves nested dicts of tensors to the device of the network.
    """

    def __init__(self, to_device: Callable[[Any], Any]) -> None:
        self._to_device = to_device
        self._state: Any = None  # nested dict [N, ...]; None: all episodes are new

    def act(self, run: Callable[..., dict[str, Any]], obs: Any) -> dict[str, Any]:
        """Run a network for one step of every environment, and keep its state.

        Args:
            run: runs the network, which returns `next_state`, see `run_core`.
            obs: observations `[N, ...]`.

        Returns:
            The network's outputs `[N, ...]`, and `prev_state`, the state before the step.
        """
        output = run(tree_map(lambda leaf: torch.as_tensor(leaf)[None], obs), prev_state=self._state)
        before, self._state = self._state, output.pop("next_state")
        if before is None:
            before = tree_map(torch.zeros_like, self._state)
        return tree_map(lambda leaf: leaf[0], output) | {"prev_state": before}

    def reset(self, env_id: np.ndarray | None = None) -> None:
        """Forget the episodes of these environments; None means all."""
        if env_id is None or self._state is None:
            self._state = None
            return

        def clear(leaf: Tensor) -> Tensor:
            return leaf.index_fill(0, torch.as_tensor(env_id, device=leaf.device), 0.0)

        self._state = tree_map(clear, self._state)

    def state_dict(self) -> dict[str, Any]:
        """Return the states, for a checkpoint."""
        return {"state": self._state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
        self._state = None if state["state"] is None else self._to_device(state["state"])

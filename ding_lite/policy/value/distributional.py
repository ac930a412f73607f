"""The forward passes of a loss, for policies that extend DQN and learn distributions of returns.

Shapes: B samples in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from easydict import EasyDict
from torch import Tensor, nn


class DistributionalPolicy:
    """A mixin: `class QRDQNPolicy(DistributionalPolicy, DQNPolicy)`."""

    _cfg: EasyDict
    _model: nn.Module
    _target_model: nn.Module
    _output: Callable[..., Any]

    def _outputs(
        self, batch: dict[str, Any], online: Mapping[str, Any] = {}, target: Mapping[str, Any] = {}
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
        """Run the networks on a batch, see `DQNPolicy._output`.

        The next actions are those with the largest values in the online network or, with `double=False`, in the target
        network.

        Args:
            batch: see `DQNPolicy._loss`.
            online: further arguments of the online network for `obs`.
            target: further arguments of the target network for `next_obs`; the actions are chosen without them.

        Returns:
            The online network's output for `obs`, the target network's output for `next_obs`, and the next actions
            `[B]`. Gradients flow only through the first of them.
        """
        predicted = self._output(self._model, batch, "obs", "online", **online)
        with torch.no_grad():
            bootstrap = chooser = self._output(self._target_model, batch, "next_obs", "target", **target)
            if self._cfg.double or target:
                network = self._model if self._cfg.double else self._target_model
                chooser = self._output(network, batch, "next_obs", "chooser")
        return predicted, bootstrap, chooser["logit"].argmax(-1)

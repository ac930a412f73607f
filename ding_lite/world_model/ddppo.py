"""The two models of directional derivative projection policy optimization, DDPPO.

Li et al. 2022, "Gradient information matters in policy optimization by back-propagating through model", ICLR. A model
that predicts well may have wrong derivatives, and a policy that learns through it follows them. So a second ensemble
also learns from differences between neighbours: with f = (r, s' - s) and the k nearest neighbours x_j of a sample
x_i = (s_i, a_i),

    L = L_MBPO + reg sum_e mean_ij ((x_j - x_i)^T grad mu_e(x_i) - (f_j - f_i))^2

Steps are predicted by the first ensemble, that of `mbpo.py`; their derivatives are those of the second one.

Shapes: M samples of this rank, B samples of a batch, E members, K neighbours, I numbers of an input, F of an output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.torch_utils.optimizer_step import OptimizerStep
from ding_lite.torch_utils.switches import frozen
from ding_lite.utils.key import Key
from ding_lite.utils.registry import WORLD_MODEL_REGISTRY
from ding_lite.world_model.ensemble import Ensemble
from ding_lite.world_model.mbpo import MBPOWorldModel

AT_ONCE = 1024  # samples whose neighbours are searched together


@WORLD_MODEL_REGISTRY.register("ddppo")
class DDPPOWorldModel(MBPOWorldModel):
    """MBPO's model with a second ensemble for the derivatives, for policies that learn through it, as `mbsac` does."""

    config: ClassVar[dict[str, Any]] = dict(
        type="ddppo",
        model=dict(
            k=Key(3, "K: neighbours of each sample", low=1),
            reg=Key(1.0, "weight of the error of the derivatives", low=0),
            neighbor_pool_size=Key(10000, "steps of each rank among which neighbours are searched", low=2),
            train_freq_gradient_model=Key(250, "env steps between two trainings of the second ensemble", low=1),
        ),
    )

    def _init_networks(self) -> None:
        super()._init_networks()
        self._gradient_network = Ensemble(self.size, self._sizes, self._cfg.model.elite_size).to(self._device)
        self._gradient_optimizer = self._add_optimizer("gradient", self._gradient_network)
        self._gradient_trained_at = -1  # env steps of all ranks, as `_trained_at`
        self._pool: dict[str, Tensor] = {}

    def _learn_from(self, data: Batch, holdout: Batch) -> dict[str, Tensor]:
        figures = super()._learn_from(data, holdout)
        before = self._gradient_trained_at
        if before >= 0 and self._envstep - before < self._cfg.model.train_freq_gradient_model:
            return figures
        self._gradient_trained_at = self._envstep
        size = self._cfg.model.neighbor_pool_size  # data are in random order
        self._pool = find_neighbors(data["input"][:size], data["target"][:size], self._cfg.model.k)
        own = self._fit(self._gradient_network, self._gradient_optimizer, self._gradient_loss, data, holdout)
        return figures | {f"gradient_{key.removeprefix('gradient_')}": value for key, value in own.items()}

    def _epoch(self, optimizer: OptimizerStep, data: Batch, sizes: list[int]) -> Iterator[Batch]:
        for batch in super()._epoch(optimizer, data, sizes):
            if optimizer is self._gradient_optimizer:
                index_EB = torch.randint(len(self._pool["point"]), batch["input"].shape[:2]).to(self._device)
                batch |= {key: column[index_EB] for key, column in self._pool.items()}
            yield batch

    def _gradient_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L of a batch with `point` `[E, B, I]`, and `offset` `[E, B, K, I]` and `change` `[E, B, K, F]`."""
        offset, change = (batch[key].flatten(1, 2) for key in ("offset", "change"))
        point = batch["point"].unsqueeze(2).expand_as(batch["offset"]).flatten(1, 2)
        slope: Tensor = torch.func.jvp(lambda x: self._gradient_network(x)[0], (point,), (offset,))[1]
        error_E = (slope - change).square().mean(dim=(1, 2))
        loss = self._likelihood(self._gradient_network, batch) + self._cfg.model.reg * error_E.sum()
        return loss, {"slope_error": error_E.mean().detach()}

    def _predict(self, input_LBI: Tensor, members: Tensor | slice = slice(None)) -> tuple[Tensor, Tensor]:
        mean_LBF, logvar_LBF = super()._predict(input_LBI, members)
        if not torch.is_grad_enabled():
            return mean_LBF, logvar_LBF
        with frozen(self._gradient_network):
            slope_LBF, _ = self._gradient_network(input_LBI, members)
        return slope_LBF + (mean_LBF - slope_LBF).detach(), logvar_LBF

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"gradient_trained_at": self._gradient_trained_at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._gradient_trained_at = state["gradient_trained_at"]


def find_neighbors(input_MI: Tensor, target_MF: Tensor, number: int) -> dict[str, Tensor]:
    """Return samples and their differences from their nearest neighbours, fewer than `number` if M is small.

    They are `point` `[M, I]`, `offset` `[M, K, I]` and `change` `[M, K, F]`.
    """
    count = min(number + 1, len(input_MI))
    parts = [torch.cdist(part, input_MI).topk(count, largest=False).indices for part in input_MI.split(AT_ONCE)]
    index_MK = torch.cat(parts)[:, 1:]  # the nearest one is the sample itself
    offset, change = (column[index_MK] - column[:, None] for column in (input_MI, target_MF))
    return {"point": input_MI, "offset": offset, "change": change}

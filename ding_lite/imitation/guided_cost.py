"""Guided cost learning (Finn et al. 2016, arXiv:1603.00448): maximum entropy inverse reinforcement learning.

An expert is thought to play steps with the probability exp(-c(s, a)) / Z. The cost c makes its steps E likely, where Z
is estimated from samples S, half of which the policy pi has played, and the other half are the expert's:

    L = mean_E c + log mean_S exp(-c) / pi(a | s)

Shapes: M steps, B samples of a side, R ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.imitation.adversarial import AdversarialRewardModel
from ding_lite.imitation.density import check_density, log_density
from ding_lite.model.mlp import MLP
from ding_lite.policy import Policy
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.ranks.collectives import all_gather_tensor
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY
from ding_lite.worker import ReplayBuffer

# of -c
TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {"sigmoid": torch.sigmoid, "linear": lambda x_M: x_M}


@REWARD_MODEL_REGISTRY.register("guided_cost")
class GuidedCostRewardModel(AdversarialRewardModel):
    """Guided cost learning of single steps, as in DI-engine, instead of trajectories.

    The samples are those of the newest collect, also if the policy learns from replay, so that pi is the policy that
    has played them. For the expert's steps among them pi is the same policy. `LEAST_LOG_DENSITY` bounds it below.

    L does not change if a constant is added to c, so the cost is shifted after each collect: its mean over the expert's
    steps is 0.
    """

    config = dict(
        type="guided_cost",
        hidden_size_list=[128, 128],
        reward_transform=Key(
            "sigmoid",
            "the reward: 'sigmoid', 1 / (1 + exp(c)), which favours long episodes; 'linear', -c",
            choices=tuple(TRANSFORMS),
        ),
    )

    def _create_heads(self) -> list[nn.Module]:
        self._head = MLP([self._encoder.size, *self._cfg.hidden_size_list, 1], "relu", output=True).to(self._device)
        return [self._head]

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        check_density(setup, policy)
        super().connect(setup, policy, replay)

    def _replayed(self, generator: torch.Generator) -> dict[str, Any]:
        return {}

    def _ready(self, steps: Batch) -> dict[str, Any]:
        return super()._ready(steps) | {"played": steps["action"]}

    def _samples(self, steps: Batch) -> dict[str, Any]:
        return {**steps, "logp": log_density(self._policy, steps["obs"], steps["played"])}

    def train(self, block: Block) -> dict[str, Tensor]:
        figures = super().train(block)
        with torch.no_grad():
            *_, bias = self._head.parameters()
            bias.sub_(self._logits(self._ready(self._expert)).mean())
        return figures

    def _logits(self, steps: Batch) -> Tensor:
        """Return -c, `[M]`."""
        minus_cost_M1: Tensor = self._head(self._encoder(steps["obs"], steps["action"]))
        return minus_cost_M1.squeeze(1)

    def _log_weights(self, batch: Batch) -> Tensor:
        """Return log exp(-c) / pi(a | s) of the samples, `[2 B]`."""
        return torch.cat([self._logits(side) - side["logp"] for side in (batch["own"], batch["expert"])])

    @torch.no_grad()
    def _complete(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Return the batch with the second term of L, of the samples of all ranks."""
        log_mean_R = all_gather_tensor(log_mean_exp(self._log_weights(batch)))
        return batch | {"log_mean": log_mean_exp(log_mean_R)}

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L and detached figures. The mean over ranks of its gradients is that of L of the joined batch."""
        own_cost, cost = (torch.neg(self._logits(batch[side]).mean()) for side in ("own", "expert"))
        part = (log_mean_exp(self._log_weights(batch)) - batch["log_mean"]).exp()  # its mean over ranks is 1
        figures = {"expert_cost": cost.detach(), "policy_cost": own_cost.detach()}
        return cost + batch["log_mean"] + part - 1.0, figures

    def _rewards(self, steps: Batch) -> Tensor:
        return TRANSFORMS[self._cfg.reward_transform](self._logits(steps))


def log_mean_exp(x_B: Tensor) -> Tensor:
    """Return log mean exp(x), a scalar."""
    return x_B.logsumexp(0) - math.log(len(x_B))

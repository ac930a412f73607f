"""DQN with implicit quantile networks, IQN (Dabney et al. 2018, arXiv:1806.06923).

The network predicts the quantile Z_tau(s, a) of the return for any probability tau. Each loss draws K probabilities
tau_i for s_t, and another K, tau'_j, for s_{t+n}, uniformly from [0, 1]. It is the mean over the batch of

    sum_i mean_j |tau_i - 1{u_ij < 0}| L(u_ij) / kappa,   u_ij = R + g^n Z'_{tau'_j}(s_{t+n}, a*) - Z_{tau_i}(s_t, a_t),

with the sum R of n rewards, the target network Z' and the Huber loss L, quadratic up to `learn.kappa`. An action's
value is the mean of its quantiles. a* is chosen as in `dqn.py`.

Acting, and the choice of a*, use the fixed probabilities (i + 1/2) / K, so they draw no random numbers.

Exploration, replay, target network and options are those of DQN. The priority of a sample is its loss.

Shapes: B samples in a batch, A actions, K quantiles.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import bootstrapped, weighted_mean
from ding_lite.rl_utils.quantile import quantile_loss
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY

NUM_QUANTILES = Key(32, "K: quantiles in a loss, for each of the two states, and while acting", low=1)


@POLICY_REGISTRY.register("iqn")
class IQNPolicy(DQNPolicy):
    """IQN. Its model takes and returns what `IQN` does."""

    config: ClassVar[dict[str, Any]] = dict(
        type="iqn",
        discount_factor=0.97,
        nstep=1,
        model=dict(
            num_quantiles=NUM_QUANTILES,
        ),
        learn=dict(
            kappa=Key(1.0, "error up to which the quantile loss is quadratic; 0: nowhere", low=0),
        ),
    )
    model_type = "iqn"

    def _draw_noise(self, batch: Batch) -> dict[str, Any]:
        size = (len(batch["action"]), self._cfg.model.get("num_quantiles", NUM_QUANTILES.default))
        tau = {name: torch.rand(size, device=self._device, dtype=self._dtype) for name in ("online", "target")}
        return super()._draw_noise(batch) | {"tau": tau}

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        noise, kappa = batch["noise"], self._cfg.learn.kappa
        online = self._run(self._model, batch["obs"], layer_noise=noise.get("online"), tau=noise["tau"]["online"])
        row_B = torch.arange(len(batch["action"]), device=self._device)
        theta_KB = online["q"][:, row_B, batch["action"]]
        with torch.no_grad():
            target, next_action_B = self._next_outputs(batch, tau=noise["tau"]["target"])
            target_KB = bootstrapped(batch, target["q"][:, row_B, next_action_B])
        tau_BK = online["quantiles"].reshape(theta_KB.shape).t()
        loss_B = quantile_loss(theta_KB.t(), target_KB.t(), tau_BK, kappa) / (kappa or 1.0)
        loss = weighted_mean(loss_B, batch.get("weight"))
        return loss, {"priority": loss_B.detach(), "q_value": online["logit"].detach()}

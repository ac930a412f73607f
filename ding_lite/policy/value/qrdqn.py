"""DQN by quantile regression, QR-DQN (Dabney et al. 2018, arXiv:1710.10044).

For every action, the network predicts K quantiles theta_i of the return, those of the probabilities
tau_i = (i + 1/2) / K. Their mean is the action's value Q. The loss is the mean over the batch of

    sum_i mean_j |tau_i - 1{u_ij < 0}| L(u_ij),   u_ij = R + g^n theta'_j(s_{t+n}, a*) - theta_i(s_t, a_t),

with the sum R of n rewards, the quantiles theta' of the target network, and a* chosen as in `dqn.py`. L is the Huber
loss, quadratic up to `learn.kappa`.

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


@POLICY_REGISTRY.register("qrdqn")
class QRDQNPolicy(DQNPolicy):
    """QR-DQN. Its model returns what `QRDQN` returns."""

    config: ClassVar[dict[str, Any]] = dict(
        type="qrdqn",
        discount_factor=0.97,
        nstep=1,
        learn=dict(
            kappa=Key(1.0, "error up to which the quantile loss is quadratic; 0: nowhere", low=0),
        ),
    )
    model_type = "qrdqn"

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        online = self._run(self._model, batch["obs"], layer_noise=batch["noise"].get("online"))
        row_B = torch.arange(len(batch["action"]), device=self._device)
        theta_BK = online["q"][row_B, batch["action"]]
        with torch.no_grad():
            target, next_action_B = self._next_outputs(batch)
            target_BK = bootstrapped(batch, target["q"][row_B, next_action_B].t()).t()
        loss_B = quantile_loss(theta_BK, target_BK, tau_BK=online["tau"][..., 0], kappa=self._cfg.learn.kappa)
        loss = weighted_mean(loss_B, batch.get("weight"))
        return loss, {"priority": loss_B.detach(), "q_value": online["logit"].detach()}

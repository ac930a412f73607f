"""Distributed distributional DDPG, D4PG (Barth-Maron et al. 2018, arXiv:1804.08617).

D4PG is DDPG with a critic that predicts a distribution of the return, n-step returns and prioritised replay. The
distribution has the probabilities p_k(s, a) at atoms z_k, equally spaced from `v_min` to `v_max`:

    L_critic = mean w H,  H = -sum_k m_k log p_k(s, a),  m = projection of r + g (1 - done) Z'(s', pi'(s'))
    L_actor = -mean sum_k z_k p_k(s, pi(s))

Z' is the distribution of the target networks, and the projection puts it back on the atoms, see
`rl_utils/categorical.py`. The symbols are those of `policy/continuous/ddpg.py`. The priority of a sample is the
Kullback-Leibler divergence of m and p, H without the entropy of m.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.policy.common_keys import REPLAY_KEYS, SOFT_TARGET_KEYS
from ding_lite.policy.continuous.ddpg import DDPGPolicy
from ding_lite.policy.value.c51 import SUPPORT_ALARM, SUPPORT_KEYS, read_support
from ding_lite.rl_utils.categorical import kl_to_target, project_target
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("d4pg")
class D4PGPolicy(DDPGPolicy):
    """D4PG. Choose `model.v_min` and `model.v_max` so that they enclose the discounted returns."""

    key_groups = (REPLAY_KEYS, SOFT_TARGET_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="d4pg",
        priority=True,
        priority_IS_weight=True,
        nstep=3,
        model=SUPPORT_KEYS,
    )
    model_type = "qac_dist"
    alarms: ClassVar[dict[str, tuple[float, str]]] = {"clipped_share": SUPPORT_ALARM}
    logged_figures = ("q_value", "cross_entropy", "clipped_share")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        read_support(cfg.policy.model)

    def _init_learn(self) -> None:
        super()._init_learn()
        self._support = read_support(self._cfg.model, self._model)

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        with torch.no_grad():
            following = self._run(self._target_critic, batch["next_obs"], action=self._target_action(batch))
            next_p_BK, (low, high) = following["logit"].softmax(-1), self._support
            target_BK, clipped_B = project_target(
                next_p_BK, batch["reward"], batch["done"], batch["value_gamma"], v_min=low, v_max=high
            )
        output = self._run(self._model.critic, batch["obs"], action=batch["action"])
        entropy_B = -(target_BK * output["logit"].log_softmax(-1)).sum(-1)
        loss = weighted_mean(entropy_B, batch.get("weight"))
        return loss, {
            "q_value": output["q_value"].detach(),
            "cross_entropy": entropy_B.detach(),
            "clipped_share": clipped_B,
            "priority": kl_to_target(entropy_B, target_BK),
        }

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        action_BD = self._run(self._model.actor, batch["obs"])
        return -self._run_frozen(self._model.critic, batch["obs"], action=action_BD)["q_value"].mean(), {}

"""Truncated quantile critics, TQC (Kuznetsov et al. 2020, arXiv:2005.04269).

TQC is SAC with C critics that each predict K quantiles theta_ck(s, a) of the return, with the probabilities
tau_k = (k - 1/2) / K. The target is made of the quantiles of all target critics, of which the largest are left out, so
that values are not too high. Of the C K numbers, sorted, z_j(s', a') are the J = C (K - dropped) smallest:

    y_j = r + g (1 - done) (z_j(s', a') - alpha log pi(a' | s')),  a' ~ pi(. | s')
    L_critic = sum_c mean w 1/K sum_k 1/J sum_j |tau_k - 1{y_j < theta_ck}| Huber(y_j - theta_ck(s, a))
    L_actor = mean alpha log pi(a | s) - 1/(C K) sum_ck theta_ck(s, a),  a ~ pi(. | s)

`dropped` is the key `top_quantiles_to_drop_per_net`. The other symbols and L_alpha are those of
`policy/continuous/sac.py`, and so are the logged figures: `td_error` is the mean of |mean_j y_j - mean_ck theta_ck|.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.policy.common_keys import NORMAL_KEYS, REPLAY_KEYS, SOFT_TARGET_KEYS
from ding_lite.policy.continuous.sac import SACPolicy
from ding_lite.rl_utils.common import bootstrapped, sum_of_means
from ding_lite.rl_utils.q_continuous import squashed_sample
from ding_lite.rl_utils.quantile import quantile_loss
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError


@POLICY_REGISTRY.register("tqc")
class TQCPolicy(SACPolicy):
    """TQC. The more quantiles are dropped, the lower are the values."""

    key_groups = (REPLAY_KEYS, SOFT_TARGET_KEYS, NORMAL_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="tqc",
        model=dict(
            ensemble_num=Key(5, "C: critics", low=1),
            num_quantiles=Key(25, "K: quantiles of each critic", low=1),
        ),
        learn=dict(
            top_quantiles_to_drop_per_net=Key(
                2, "quantiles per critic that are left out of the target, the largest of all critics", low=0
            ),
        ),
    )
    model_type = "qac_quantile"

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        dropped, there = cfg.policy.learn.top_quantiles_to_drop_per_net, cfg.policy.model.num_quantiles
        if dropped >= there:
            raise ConfigError(
                f"policy.learn.top_quantiles_to_drop_per_net={dropped} leaves nothing of "
                f"policy.model.num_quantiles={there}: drop fewer."
            )

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        with torch.no_grad():
            logit = self._run(self._model.actor, batch["next_obs"])
            action_BD, logp_B = squashed_sample(logit, batch["noise"]["next"])
            z_CBK = self._run(self._target_critic, batch["next_obs"], action=action_BD)
            num = len(z_CBK) * (z_CBK.shape[-1] - self._cfg.learn.top_quantiles_to_drop_per_net)
            z_JB = z_CBK.transpose(1, 2).flatten(0, 1).sort(0).values[:num]
            value_JB = z_JB - self._alpha() * logp_B
            target_JB = bootstrapped(batch, value_JB)
        theta_CBK = self._run(self._model.critic, batch["obs"], action=batch["action"])
        number = theta_CBK.shape[-1]
        tau_K = (torch.arange(number, dtype=theta_CBK.dtype, device=theta_CBK.device) + 0.5) / number
        losses = [quantile_loss(theta_BK, target_JB.t(), tau_K.expand_as(theta_BK), 1.0) for theta_BK in theta_CBK]
        loss = sum_of_means(torch.stack(losses) / number, batch.get("weight"))
        q_B = theta_CBK.detach().mean((0, 2))
        error_B = (target_JB.mean(0) - q_B).abs()
        return loss, {"q_value": q_B, "td_error": error_B, "priority": error_B}

    def _actor_value(self, q: Tensor) -> Tensor:
        return q.mean((0, 2))

"""PPO without a critic: the clipped objective of PPO with the returns of REINFORCE as advantages.

The policy plays whole episodes and then learns from them in several passes of minibatches. The loss is

    -mean min(rho_t R_t, clip(rho_t, 1 - clip_ratio, 1 + clip_ratio) R_t) - entropy_weight entropy
    rho_t = pi(a_t | s_t) / pi_old(a_t | s_t),   R_t = r_t + g r_{t+1} + ... to the episode's end

with discount g and the policy pi_old that played (Schulman et al. 2017, arXiv:1707.06347, eq. 7). In the first step of
the first pass rho = 1, and the gradient is that of REINFORCE, see `pg.py`. With `adv_norm`, R_t is normalised in each
minibatch, which subtracts a constant baseline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ding_lite.policy.common_keys import EPISODE_KEYS, EPOCH_KEYS, LEARNING_RATE_KEYS
from ding_lite.policy.policy_gradient.actor_critic import LOSS_KEYS, init_parameters, normalize_advantages
from ding_lite.policy.policy_gradient.pg import PGPolicy
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import log_prob, log_prob_entropy
from ding_lite.rl_utils.policy_gradient import clipped_objective
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("ppo_pg")
class PPOPGPolicy(PGPolicy):
    """PPO without a critic, for discrete, multi-discrete, continuous or hybrid actions.

    Override `_loss` to change the objective.
    """

    key_groups = (EPISODE_KEYS, EPOCH_KEYS, LEARNING_RATE_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="ppo_pg",
        learn=dict(
            ppo_param_init=LOSS_KEYS["learn"]["ppo_param_init"],
            learning_rate=3e-4,
            entropy_weight=0.0,
            clip_ratio=Key(0.2, "bound of |pi_new(a) / pi_old(a) - 1|", low=0),
            adv_norm=Key(False, "normalise each minibatch's returns, over all ranks, to mean 0 and variance 1"),
            grad_clip_value=0.5,
        ),
    )
    stored_outputs = ("logit",)
    logged_figures = (*PGPolicy.logged_figures, "approx_kl", "clipfrac")

    def _create_model(self) -> nn.Module:
        return init_parameters(super()._create_model(), self._cfg)

    def _batches(self, samples: Batch) -> Iterator[Batch]:
        for _ in range(self._cfg.learn.epoch_per_collect):
            parts = super()._batches(samples)
            batches = [part | {"adv": part["return_"]} for part in parts]
            yield from normalize_advantages(batches) if self._cfg.learn.adv_norm else batches

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        learn, weight_B = self._cfg.learn, batch.get("weight")
        logp_B, entropy_B = log_prob_entropy(self._run(self._model, batch["obs"])["logit"], batch["action"])
        with torch.no_grad():
            logp_old_B = log_prob(batch["logit"], batch["action"])
        ratio_B = (logp_B - logp_old_B).exp()
        policy_loss = -weighted_mean(clipped_objective(ratio_B, batch["adv"], learn.clip_ratio), weight_B)
        entropy = weighted_mean(entropy_B, weight_B)
        with torch.no_grad():
            clipped_B = ((ratio_B - 1.0).abs() > learn.clip_ratio).to(ratio_B.dtype)
            figures = {"approx_kl": weighted_mean(logp_old_B - logp_B, weight_B)}
            figures |= {"clipfrac": weighted_mean(clipped_B, weight_B), "return": batch["return_"]}
        figures |= {"policy_loss": policy_loss.detach(), "entropy": entropy.detach()}
        return policy_loss - learn.entropy_weight * entropy, figures

"""IMPALA: an off-policy actor-critic with V-trace targets (Espeholt et al. 2018, arXiv:1802.01561).

    L = -mean A log pi(a | s) + value_weight mean (v - V(s))^2 - entropy_weight mean H(pi(. | s))

The targets v and the advantages A are those of V-trace, see `rl_utils/vtrace.py`.

Shapes: U steps of a sequence, B sequences, K episodes truncated inside them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.policy.common_keys import LEARNING_RATE_KEYS, SAMPLE_KEYS
from ding_lite.policy.policy_gradient.a2c import A2CPolicy
from ding_lite.policy.policy_gradient.actor_critic import LOSS_KEYS, flatten_rows
from ding_lite.policy.sequences import UNROLL_KEYS
from ding_lite.rl_utils.distribution import log_prob, log_prob_entropy
from ding_lite.rl_utils.vtrace import vtrace_advantage, vtrace_nstep_return
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key, merge_keys
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map


@POLICY_REGISTRY.register("impala")
class IMPALAPolicy(A2CPolicy):
    """IMPALA for discrete, multi-discrete, continuous or hybrid actions. Override `_loss` to change the objective."""

    key_groups = (SAMPLE_KEYS, LEARNING_RATE_KEYS, LOSS_KEYS)
    config: ClassVar[dict[str, Any]] = merge_keys(
        UNROLL_KEYS,
        dict(
            type="impala",
            discount_factor=0.99,
            learn=dict(
                learning_rate=0.0005,
                entropy_weight=0.0001,
                grad_clip_type=None,
                lambda_=Key(0.95, "lambda of the V-trace return", low=0, high=1),
                rho_clip_ratio=Key(1.0, "upper bound of the importance weight of a temporal difference", low=0),
                c_clip_ratio=Key(1.0, "upper bound of the importance weight of later temporal differences", low=0),
                rho_pg_clip_ratio=Key(1.0, "upper bound of the importance weight of a policy gradient", low=0),
            ),
            collect=dict(
                n_sample=Key(None, "sequences per rank and collect; None: one per environment", type=int, low=1),
            ),
        ),
    )
    learns_from = "replay"
    allows_lag = True

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures of sequences as `worker/replay/sequence.py` makes them."""
        learn = self._cfg.learn
        n_step, batch_size = batch["reward"].shape
        parts = [flatten_rows(batch["obs"]), batch["last_obs"]]
        parts += [batch["final_obs"]] if "final_index" in batch else []
        obs = tree_map(lambda *leaves: torch.cat(leaves), *parts)
        output = self._run(self._model, obs, mode="compute_actor_critic")
        size = n_step * batch_size
        logit_UB = tree_map(lambda leaf: leaf[:size].unflatten(0, (n_step, batch_size)), output["logit"])
        value_TB = output["value"][: size + batch_size].view(n_step + 1, batch_size)
        next_value_UB = value_TB[1:].detach().clone()
        if "final_index" in batch:
            next_value_UB.view(-1)[batch["final_index"]] = output["value"][size + batch_size :].detach()
        cuts = {"next_value": next_value_UB, "done": batch["done"], "traj_flag": batch["traj_flag"]}
        logp_UB, entropy_UB = log_prob_entropy(logit_UB, batch["action"])
        with torch.no_grad():
            ratio_UB = (logp_UB - log_prob(batch["logit"], batch["action"])).exp()
            rho_UB, c_UB = ratio_UB.clamp(max=learn.rho_clip_ratio), ratio_UB.clamp(max=learn.c_clip_ratio)
            gamma = self._cfg.discount_factor
            return_UB = vtrace_nstep_return(rho_UB, c_UB, batch["reward"], value_TB, gamma, learn.lambda_, **cuts)
            following_UB = torch.cat([return_UB[1:], next_value_UB[-1:]])
            rho_pg_UB = ratio_UB.clamp(max=learn.rho_pg_clip_ratio)
            adv_UB = vtrace_advantage(rho_pg_UB, batch["reward"], following_UB, value_TB[:-1], gamma, **cuts)
        policy_loss = -(logp_UB * adv_UB).mean()
        value_loss = (return_UB - value_TB[:-1]).square().mean()
        entropy = entropy_UB.mean()
        loss = policy_loss + learn.value_weight * value_loss - learn.entropy_weight * entropy
        explained = 1.0 - (return_UB - value_TB[:-1]).var(correction=0) / return_UB.var(correction=0).clamp(min=1e-12)
        figures = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        return loss, {key: value.detach() for key, value in (figures | {"explained_variance": explained}).items()}

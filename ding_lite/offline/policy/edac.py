"""Ensemble-diversified actor-critic, EDAC (An et al. 2021, arXiv:2110.01548): SAC with many critics, on a data set.

The smallest value of C critics is low where the data says little, because there the critics disagree. They agree again
where their values change alike with the action, so a second term turns their gradients away from each other:

    y = r + gamma (1 - done) (min_c Q'_c(s', a') [- alpha log pi(a' | s')]),  a' ~ pi(. | s')
    g_c = d Q_c(s, a) / da, divided by its norm
    L_critic = sum_c mean (y - Q_c(s, a))^2 + eta / (C - 1) mean sum_{i != j} <g_i, g_j>

The term in brackets is used if `with_q_entropy` is set. With eta = 0 this is SAC-N of the same paper. The symbols,
L_actor, with the smallest of the C values, and L_alpha are those of `policy/continuous/sac.py`.

Logged figures, in addition to those of `policy/continuous/sac.py`:

* `q_spread`: the standard deviation of Q_c(s, a) over the critics, a mean over samples.
* `similarity`: the mean of <g_i, g_j> over samples and pairs of different critics, from -1 / (C - 1) to 1.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.policy.common_keys import DATASET_KEYS, NORMAL_KEYS, NSTEP_KEYS, SOFT_TARGET_KEYS, WIDE_HEAD_KEYS
from ding_lite.policy.continuous.sac import SACPolicy
from ding_lite.rl_utils.common import bootstrapped, sum_of_means
from ding_lite.rl_utils.q_continuous import squashed_sample
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("edac")
class EDACPolicy(SACPolicy):
    """EDAC: SAC with another critic loss and an ensemble of critics, learned from a data set."""

    key_groups = (DATASET_KEYS, NSTEP_KEYS, SOFT_TARGET_KEYS, NORMAL_KEYS, WIDE_HEAD_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="edac",
        model=dict(ensemble_num=Key(10, "C: critics", low=2)),
        learn=dict(
            alpha=1.0,
            eta=Key(0.1, "weight of the similarity of the critics' gradients; 0: SAC-N", low=0),
            with_q_entropy=Key(False, "include the policy's entropy in the target of the critics"),
        ),
    )
    model_type = "edac"
    learns_from = "dataset"
    logged_figures = (*SACPolicy.logged_figures, "q_spread", "similarity")

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_critic and detached figures, for a batch as `_prepare` returns it."""
        learn, ensemble_num = self._cfg.learn, self._cfg.model.ensemble_num
        with torch.no_grad():
            logit = self._run(self._model.actor, batch["next_obs"])
            next_action_BD, logp_B = squashed_sample(logit, batch["noise"]["next"])
            value_B = self._run(self._target_critic, batch["next_obs"], action=next_action_BD).amin(0)
            if learn.with_q_entropy:
                value_B = value_B - self._alpha() * logp_B
        action_CBD = batch["action"].to(self._dtype).repeat(ensemble_num, 1, 1).requires_grad_()
        q_CB = self._run(self._model.critic, batch["obs"], action=action_CBD, own_actions=True)
        error_CB = bootstrapped(batch, value_B) - q_CB
        (slope_CBD,) = torch.autograd.grad(q_CB.sum(), action_CBD, create_graph=True)
        g_CBD = functional.normalize(slope_CBD, dim=-1)
        # The products of all pairs are |sum_c g_c|^2. Those of a critic with itself do not count.
        similarity_B = g_CBD.sum(0).square().sum(-1) - g_CBD.square().sum((0, -1))
        loss = sum_of_means(error_CB.square()) + learn.eta / (ensemble_num - 1) * similarity_B.mean()
        figures = {"q_value": q_CB, "td_error": error_CB.abs(), "q_spread": q_CB.std(0, correction=0)}
        figures["similarity"] = similarity_B / (ensemble_num * (ensemble_num - 1))
        return loss, {name: figure.detach() for name, figure in figures.items()}

"""Randomised ensembled double Q-learning, REDQ (Chen et al. 2021, arXiv:2101.05982).

REDQ is SAC with an ensemble of C critics, and many updates of them for each env step. A target is the smallest value
of a set M of critics, which is drawn anew for each update:

    y = r + g (1 - done) (min_{c in M} Q'_c(s', a') - alpha log pi(a' | s')),  a' ~ pi(. | s')
    L_critic = sum_c mean w (y - Q_c(s, a))^2
    L_actor = mean alpha log pi(a | s) - mean_c Q_c(s, a),  a ~ pi(. | s)

The actor and alpha are updated after every `actor_update_freq` updates of the critics. By default there are 20 of these
for each env step, and one of the actor, as in the paper. The symbols and L_alpha are
those of `policy/continuous/sac.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.policy.common_keys import NORMAL_KEYS, REPLAY_KEYS, SOFT_TARGET_KEYS
from ding_lite.policy.continuous.sac import SACPolicy
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError


@POLICY_REGISTRY.register("redq")
class REDQPolicy(SACPolicy):
    """REDQ. Override `_critic_loss` or `_actor_loss` to change the objective."""

    key_groups = (REPLAY_KEYS, SOFT_TARGET_KEYS, NORMAL_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="redq",
        random_collect_size=5000,
        model=dict(ensemble_num=Key(10, "C: critics", low=1)),
        learn=dict(
            update_per_step=Key(
                20, "learner iterations for each env step of all ranks, unless update_per_collect is set", low=1
            ),
            min_num=Key(2, "size of M: critics, drawn for each update, whose smallest value is the target", low=1),
            actor_update_freq=Key(20, "updates of the critics for each update of the actor", low=1),
        ),
    )
    model_type = "qac_ensemble"
    logged_figures = (*SACPolicy.logged_figures, "q_spread")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        wanted, there = cfg.policy.learn.min_num, cfg.policy.model.ensemble_num
        if wanted > there:
            raise ConfigError(
                f"policy.learn.min_num={wanted} critics cannot be drawn from policy.model.ensemble_num={there}."
            )

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        steps = self._optimizers["critic"].steps  # equal on all ranks and after a resume, so all draw the same M
        generator = torch.Generator().manual_seed(steps)
        drawn_M = torch.randperm(self._cfg.model.ensemble_num, generator=generator)[: self._cfg.learn.min_num]
        return super()._draw_noise(batch) | {"critics": drawn_M.to(self._device)}

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        loss, figures = super()._critic_loss(batch)
        return loss, figures | {"q_spread": figures["q_value"].std(0, correction=0)}

    def _next_value(self, q_CB: Tensor, batch: Batch) -> Tensor:
        return q_CB[batch["noise"]["critics"]].amin(0)

    def _actor_value(self, q: Tensor) -> Tensor:
        return q.mean(0)

"""Weighted QMIX (Rashid et al. 2020, arXiv:2006.10800), for several agents.

Q_tot is QMIX's, see `qmix.py`. Its mixer cannot represent every value of all actions together, and QMIX
spreads the error evenly. Here a second network, Q*, whose mixer is not restricted, learns the values of what is played,
and errors of Q_tot below them count more:

    L = mean w (alpha(s_t, a_t) (Q_tot(s_t, a_t) - y_t)^2 + (Q*(s_t, a_t) - y_t)^2),
    y_t = r_t + g r_{t+1} + ... + g^{n-1} r_{t+n-1} + g^n Q*'(s_{t+n}, argmax_a Q_tot(s_{t+n}, a)).

alpha(s, a) is 1 if Q_tot(s, a) < y, the optimistic weight, and `learn.alpha` elsewhere. With `learn.wqmix_ow=False`,
the central weight, it is 1 if every agent played its best action or if y > Q*(s, argmax_a Q_tot(s, a)).

Shapes: T rows of a sequence, U steps to learn from, B sequences, M agents, A actions of each, G features of the global
state; 2 stands for Q_tot and Q*.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.multi_agent.policy.qmix import MixingPolicy
from ding_lite.policy.sequences import RecurrentPolicy
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import bootstrapped, weighted_mean
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.torch_utils.normalizer import active_agents
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("wqmix")
class WQMIXPolicy(MixingPolicy, RecurrentPolicy, DQNPolicy):
    """Weighted QMIX. Override `_loss` to change the objective."""

    config: ClassVar[dict[str, Any]] = dict(
        type="wqmix",
        learn=dict(
            wqmix_ow=Key(True, "weigh optimistically; False: centrally"),
            alpha=Key(0.5, "weight of other errors of Q_tot", low=0, high=1),
        ),
    )
    model_type = "wqmix"
    logged_figures = ("q_value", "weight", "epsilon")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        cfg = self._cfg
        rows, q_UB2MA, next_q_TB2MA, target_q_TB2MA = self._values(batch, "both")
        state_UBG, action_UBM = rows["state"], rows["action"]
        q_UB2 = self._mix(self._model, state_UBG, q_X2MA=q_UB2MA, action_XM=action_UBM)
        with torch.no_grad():
            best = {"q_X2MA": target_q_TB2MA, "action_XM": next_q_TB2MA[:, :, 0].argmax(-1)}
            next_q_TB = self._mix(self._target_model, rows["next_state"], **best)[..., 1]
            target_UB = bootstrapped(rows, next_q_TB.gather(0, rows["last_step"]))
            counts_UB = q_UB2[..., 0] < target_UB
            if not cfg.learn.wqmix_ow:
                greedy_UBM = q_UB2MA[:, :, 0].argmax(-1)
                greedy_UB2 = self._mix(self._model, state_UBG, q_X2MA=q_UB2MA, action_XM=greedy_UBM)
                same_UBM, active_TBM = greedy_UBM == action_UBM, active_agents(batch["obs"])
                if active_TBM is not None:
                    same_UBM |= ~active_TBM[cfg.burnin_step :][: cfg.unroll_len]
                counts_UB = same_UBM.all(-1) | (target_UB > greedy_UB2[..., 1])
            alpha_UB = torch.where(counts_UB, 1.0, cfg.learn.alpha).to(target_UB.dtype)
        error_UB2 = target_UB.unsqueeze(-1) - q_UB2
        square_UB = alpha_UB * error_UB2[..., 0].square() + error_UB2[..., 1].square()
        loss = weighted_mean(square_UB, batch.get("weight"))
        priority_B = self._priority(error_UB2[..., 0].detach().abs())
        return loss, {"priority": priority_B, "q_value": q_UB2[..., 0].detach(), "weight": alpha_UB.mean()}

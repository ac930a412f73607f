"""Multi-agent DQN with a cooperation network, MADQN, as DI-engine has it (`ding/policy/madqn.py`).

Two networks of QMIX, see `qmix.py`, give a value of all actions together. Q_tot is made of what the agents
observe, and acts. C_tot, the cooperation network, is made of the global state s, which every agent sees there in place
of its own observation (`model.global_cooperation`); it serves only to learn. Both learn the same target, from C_tot:

    L = mean w ((Q_tot(o_t, a_t) - y_t)^2 + (C_tot(s_t, a_t) - y_t)^2),
    y_t = r_t + g r_{t+1} + ... + g^{n-1} r_{t+n-1} + g^n C'_tot(s_{t+n}, a*),   a*_m = argmax_a C'_m(s_{t+n}, a),

with discount g and the target network C'. With `learn.double_q`, a* are the best actions by Q, those that the agents
would take. Without `model.mixer`, the default, the values of the agents are added.

Shapes: T rows of a sequence, U steps to learn from, B sequences, M agents, A actions of each, G features of the global
state; 2 stands for Q and C.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.multi_agent.policy.qmix import DOUBLE_Q_KEYS, QMIX_GROUPS, MixingPolicy
from ding_lite.policy.sequences import RecurrentPolicy
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import bootstrapped, weighted_mean
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("madqn")
class MADQNPolicy(MixingPolicy, RecurrentPolicy, DQNPolicy):
    """DI-engine's MADQN. Override `_loss` to change the objective."""

    key_groups = (*QMIX_GROUPS, DOUBLE_Q_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="madqn",
        nstep=3,
        learn=dict(double_q=Key(False, "the acting network chooses the actions of the target")),
    )
    state_of_each = True  # it takes a global state of each agent, too
    model_type = "madqn"
    logged_figures = ("q_value", "cooperation_q_value", "epsilon")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        rows, q_UB2MA, next_q_TB2MA, target_q_TB2MA = self._values(batch, "both")
        q_UB2 = self._mix(self._model, rows["state"], q_X2MA=q_UB2MA, action_XM=rows["action"])
        with torch.no_grad():
            chooser_TBMA = next_q_TB2MA[:, :, 0] if self._cfg.learn.double_q else target_q_TB2MA[:, :, 1]
            best = {"q_X2MA": target_q_TB2MA, "action_XM": chooser_TBMA.argmax(-1)}
            next_q_TB = self._mix(self._target_model, rows["next_state"], **best)[..., 1]
            target_UB = bootstrapped(rows, next_q_TB.gather(0, rows["last_step"]))
        error_UB2 = target_UB.unsqueeze(-1) - q_UB2
        loss = weighted_mean(error_UB2.square().sum(-1), batch.get("weight"))
        figures = {"q_value": q_UB2[..., 0].detach(), "cooperation_q_value": q_UB2[..., 1].detach().mean()}
        return loss, figures | {"priority": self._priority(error_UB2[..., 0].detach().abs())}

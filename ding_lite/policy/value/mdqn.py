"""Munchausen DQN, M-DQN (Vieillard et al. 2020, arXiv:2007.14430).

The reward is increased by the scaled log-probability of the action, and the value of the next state is soft, with the
policy pi = softmax(Q' / tau) of the target network Q'. The loss is the mean over the batch of

    (Q(s, a) - y)^2,   y = r + alpha max(tau log pi(a | s), -1) + g (1 - done) V(s')
    V(s') = sum_a' pi(a' | s') (Q'(s', a') - tau log pi(a' | s')) = tau log sum_a' exp(Q'(s', a') / tau)

tau is `entropy_tau`, alpha `m_alpha`, and g the discount. The rest, such as exploration and replay, is DQN's, see
`dqn.py`. `double` has no meaning here, because no action is chosen.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.policy.common_keys import (
    AGENT_KEYS,
    DQN_KEYS,
    LEARNING_RATE_KEYS,
    NOISY_KEYS,
    SPREAD_KEYS,
)
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import pick, weighted_mean
from ding_lite.rl_utils.soft_q import LOWEST_LOG_POLICY, action_gap, soft_value
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("mdqn")
class MDQNPolicy(DQNPolicy):
    """M-DQN. Override `_loss` to change the objective."""

    key_groups = (DQN_KEYS, LEARNING_RATE_KEYS, SPREAD_KEYS, NOISY_KEYS, AGENT_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="mdqn",
        nstep=Key(1, "env steps before the bootstrap: the Munchausen term is defined for one", choices=(1,)),
        entropy_tau=Key(0.03, "tau: temperature of the policy softmax(Q / tau)", above=0),
        m_alpha=Key(0.9, "alpha: weight of the log-policy in the reward", low=0, high=1),
        learn=dict(adam_eps=0.0003125),
    )
    forward_passes = ("online", "current", "target")
    logged_figures = (*DQNPolicy.logged_figures, "action_gap", "clip_frac")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        tau, alpha, action_B, noise = self._cfg.entropy_tau, self._cfg.m_alpha, batch["action"], batch["noise"]
        q_BA = self._run(self._model, batch["obs"], layer_noise=noise.get("online"))["logit"]
        with torch.no_grad():
            target_q_BA = self._run(self._target_model, batch["obs"], layer_noise=noise.get("current"))["logit"]
            next_q_BA = self._run(self._target_model, batch["next_obs"], layer_noise=noise.get("target"))["logit"]
            log_policy_B = tau * pick((target_q_BA / tau).log_softmax(-1), action_B)
            bonus_B = alpha * log_policy_B.clamp(min=LOWEST_LOG_POLICY)
            next_value_B = soft_value(next_q_BA, tau).masked_fill(batch["done"], 0.0)
            target_B = batch["reward"] + bonus_B + self._cfg.discount_factor * next_value_B
        error_B = target_B - pick(q_BA, action_B)
        loss = weighted_mean(error_B.square(), batch.get("weight"))
        return loss, {
            "priority": error_B.detach().abs(),
            "q_value": q_BA.detach(),
            "action_gap": action_gap(target_q_BA),
            "clip_frac": (log_policy_B < LOWEST_LOG_POLICY).to(q_BA.dtype),
        }

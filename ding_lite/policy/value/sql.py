"""Soft Q-learning, SQL (Haarnoja et al. 2017, arXiv:1702.08165), for discrete actions.

The policy maximises the reward plus alpha times its entropy. The best such policy is pi = softmax(Q / alpha), where Q
solves the soft Bellman equation. The loss is the mean over the batch of

    (Q(s_t, a_t) - y_t)^2,   y_t = r_t + g r_{t+1} + ... + g^{n-1} r_{t+n-1} + g^n (1 - done) V(s_{t+n})
    V(s) = alpha log sum_a exp(Q'(s, a) / alpha)

with discount g and target network Q'. Actions are drawn from pi, or with probability epsilon at random; evaluations
play the argmax of Q. The rest is DQN's, see `dqn.py`. `double` has no meaning here, because no action is chosen.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.policy.common_keys import AGENT_KEYS, DQN_KEYS, LEARNING_RATE_KEYS, NOISY_KEYS
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import bootstrapped, pick, weighted_mean
from ding_lite.rl_utils.soft_q import epsilon_softmax, soft_value
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("sql")
class SQLPolicy(DQNPolicy):
    """Soft Q-learning with a fixed temperature. Override `_loss` to change the objective."""

    key_groups = (DQN_KEYS, LEARNING_RATE_KEYS, NOISY_KEYS, AGENT_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="sql",
        nstep=1,
        learn=dict(alpha=Key(0.1, "temperature of the policy softmax(Q / alpha), in units of the reward", above=0)),
    )
    logged_figures = (*DQNPolicy.logged_figures, "soft_value")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        noise = batch["noise"]
        q_BA = self._run(self._model, batch["obs"], layer_noise=noise.get("online"))["logit"]
        with torch.no_grad():
            target_q_BA = self._run(self._target_model, batch["next_obs"], layer_noise=noise.get("target"))["logit"]
            value_B = soft_value(target_q_BA, self._cfg.learn.alpha)
            target_B = bootstrapped(batch, value_B)
        error_B = target_B - pick(q_BA, batch["action"])
        loss = weighted_mean(error_B.square(), batch.get("weight"))
        return loss, {"priority": error_B.detach().abs(), "q_value": q_BA.detach(), "soft_value": value_B}

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, eps: float = 0.0, **kwargs: Any) -> Output:
        logit_NA = self._run(self._model, obs)["logit"]
        return {"logit": logit_NA, "action": epsilon_softmax(logit_NA, eps, self._cfg.learn.alpha)}

"""Soft actor-critic for discrete actions (Christodoulou 2019, arXiv:1910.07207).

The expectation over the actions of a state is computed exactly:

    V(s) = sum_a pi(a | s) (min_c Q_c(s, a) - alpha log pi(a | s))
    y = r + gamma (1 - done) V'(s'),  where V' uses the target critics Q'_c
    L_critic = sum_c mean w (y - Q_c(s, a))^2
    L_actor = -mean V(s),  whose gradient flows through pi only
    L_alpha = log alpha mean(H(pi(. | s)) - target entropy)

Shapes: B samples, N environments, A discrete actions, C critics.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor

from ding_lite.model.masks import allowed_actions, find_mask
from ding_lite.policy.common_keys import AGENT_KEYS, EPSILON_KEYS, REPLAY_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS
from ding_lite.policy.continuous.sac import SACPolicy
from ding_lite.rl_utils.common import bootstrapped, pick, sum_of_means
from ding_lite.rl_utils.q_continuous import temperature_error
from ding_lite.rl_utils.soft_q import epsilon_softmax, soft_policy_value
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("sac_discrete")
@POLICY_REGISTRY.register("discrete_sac")
class DiscreteSACPolicy(SACPolicy):
    """Discrete SAC: SAC with losses and acting for discrete actions."""

    key_groups = (REPLAY_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS, EPSILON_KEYS, AGENT_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="discrete_sac",
        learn=dict(
            init_w=None,
            target_entropy=Key(None, "in nats; None: 0.98 times the entropy of random allowed actions", type=float),
        ),
        other=dict(
            replay_buffer=dict(replay_buffer_size=100000),
            eps=dict(start=0.0, end=0.0),
        ),
    )
    model_type = "discrete_qac"
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Discrete,)
    logged_figures = ("q_value", "td_error", "entropy", "alpha")

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        return {}

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        with torch.no_grad():
            logit_BA = self._run(self._model.actor, batch["next_obs"])
            next_q_BA = self._run(self._target_critic, batch["next_obs"]).amin(0)
            next_value_B, _ = soft_policy_value(next_q_BA, logit_BA, self._alpha())
        q_CBA = self._run(self._model.critic, batch["obs"])
        q_CB = pick(q_CBA, batch["action"].expand(len(q_CBA), -1))
        target_B = bootstrapped(batch, next_value_B)
        error_CB = target_B - q_CB
        loss = sum_of_means(error_CB.square(), batch.get("weight"))
        error_CB = error_CB.detach().abs()
        return loss, {"priority": error_CB.mean(0), "q_value": q_CB.detach(), "td_error": error_CB}

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_actor and detached figures, which include `entropy_gap` `[B]`, the entropy minus its target."""
        q_BA = self._run_frozen(self._model.critic, batch["obs"]).amin(0)
        value_B, entropy_B = soft_policy_value(q_BA, self._run(self._model.actor, batch["obs"]), self._alpha().detach())
        entropy_B = entropy_B.detach()
        target, mask_BA = self._cfg.learn.target_entropy, find_mask(batch["obs"])
        if target is None and mask_BA is not None:  # of each sample
            target = 0.98 * allowed_actions(mask_BA).sum(-1, dtype=self._dtype).log()
        elif target is None:
            target = 0.98 * math.log(q_BA.shape[-1])
        return -value_B.mean(), {"entropy": entropy_B, "entropy_gap": entropy_B - target}

    def _alpha_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_alpha, and alpha as a figure, for a batch with `entropy_gap` `[B]`."""
        return temperature_error(self._alpha.learned, -batch["entropy_gap"], 0.0), {"alpha": self._alpha().detach()}

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, eps: float = 0.0, **kwargs: Any) -> Output:
        logit_NA = self._run(self._model, obs, mode="compute_actor")["logit"]
        return {"logit": logit_NA, "action": epsilon_softmax(logit_NA, eps)}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        logit_NA = self._run(self._model, obs, mode="compute_actor")["logit"]
        return {"logit": logit_NA, "action": logit_NA.argmax(-1)}

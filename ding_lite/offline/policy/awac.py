"""Advantage-weighted actor-critic (AWAC, Nair et al. 2020, arXiv:2006.09359): from data, and on by playing.

The critics learn as in TD3 and SAC, with actions of the policy. The actor imitates the actions in replay, the better
they are the more, so that it stays where critics know the values; nothing estimates the behaviour in the data:

    L_critic = sum_c mean (y - Q_c(s, a))^2,  y = r + gamma (1 - done) min_c Q'_c(s', a'),  a' ~ pi(s')
    L_actor = -mean min(exp(beta A), 100) log pi(a | s),  A = min_c Q_c(s, a) - min_c Q_c(s, b),  b ~ pi(s)

beta is 1 / lambda of the paper. The losses are the same before the policy plays and after. The data are in the buffer
`demonstrations`, see `offline/demonstrations.py`:

    policy.other.replay_buffer = dict(type="demonstrations", data_path="pen.hdf5", first_updates=25000)

Logged figures, in addition to those of the networks as in `policy/continuous/ddpg.py`:

* `q_value`, `td_error`: the means of Q(s, a) and |y - Q(s, a)|.
* `adv`: the mean of A. `adv_weight`: the mean of min(exp(beta A), 100). `log_prob`: the mean of log pi(a | s).

The authors' code divides the weights by their sum over the batch instead of bounding them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor

from ding_lite.offline.policy.iql import LEAST_SIGMA
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import NORMAL_KEYS, REPLAY_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS
from ding_lite.rl_utils.common import bootstrapped, sum_of_means, weighted_mean
from ding_lite.rl_utils.distribution import log_prob, sample
from ding_lite.rl_utils.q_continuous import advantage_weight
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("awac")
class AWACPolicy(Policy):
    """AWAC. Override `_critic_loss` or `_actor_loss` to change the objective."""

    key_groups = (REPLAY_KEYS, SOFT_TARGET_KEYS, NORMAL_KEYS, TWIN_CRITIC_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="awac",
        learn=dict(
            batch_size=1024,
            learning_rate_q=Key(3e-4, "learning rate of the critics' optimizer", low=0, high=10**6),
            learning_rate_policy=Key(3e-4, "learning rate of the actor's optimizer", low=0, high=10**6),
            beta=Key(1.0, "inverse temperature of the imitation weights: 0 imitates all actions equally", low=0),
        ),
        other=dict(replay_buffer=dict(replay_buffer_size=1000000)),
    )
    model_type = "continuous_normal_qac"
    action_spaces = (gymnasium.spaces.Box,)
    unit_actions = True
    actor_mode = "compute_actor"
    _model: Any
    model_attributes = ("actor", "critic")
    logged_figures = ("q_value", "td_error", "adv", "adv_weight", "log_prob")

    def _init_learn(self) -> None:
        self._add_optimizer("critic", self._model.critic, self._cfg.learn.learning_rate_q)
        self._add_optimizer("actor", self._model.actor, self._cfg.learn.learning_rate_policy)
        self._target_critic = self._add_target("critic")

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        action_BD = batch["action"].reshape(len(batch["action"]), -1)
        return {name: torch.randn_like(action_BD, dtype=self._dtype) for name in ("next", "actor")}

    def _action(self, logit: dict[str, Tensor], noise_BD: Tensor) -> Tensor:
        """Return an action `[B, D]` of the policy."""
        return (logit["mu"] + logit["sigma"] * noise_BD).clamp(-1.0, 1.0)

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        with torch.no_grad():
            action_BD = self._action(self._run(self._model.actor, batch["next_obs"]), batch["noise"]["next"])
            value_B = self._run(self._target_critic, batch["next_obs"], action=action_BD).amin(0)
        q_CB = self._run(self._model.critic, batch["obs"], action=batch["action"])
        error_CB = bootstrapped(batch, value_B) - q_CB
        error_B = error_CB.detach().abs().mean(0)
        loss = sum_of_means(error_CB.square(), batch.get("weight"))
        return loss, {"q_value": q_CB.detach(), "td_error": error_B, "priority": error_B}

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        logit = self._run(self._model.actor, batch["obs"])
        logit = logit | {"sigma": logit["sigma"].clamp(min=LEAST_SIGMA)}
        with torch.no_grad():
            own_BD = self._action(logit, batch["noise"]["actor"])
            action_2BD = torch.stack([batch["action"].to(own_BD), own_BD])
            data_B, own_B = self._run(self._model.critic, batch["obs"], action=action_2BD).amin(0)
        adv_B = data_B - own_B
        weight_B, logp_B = advantage_weight(adv_B, self._cfg.learn.beta), log_prob(logit, batch["action"])
        loss = -weighted_mean(weight_B * logp_B, batch.get("weight"))
        return loss, {"adv": adv_B, "adv_weight": weight_B, "log_prob": logp_B.detach()}

    def _forward_learn(self, batch: Batch) -> Figures:
        output = self._optimizers["critic"].step(self._critic_loss, batch)
        output |= self._optimizers["actor"].step(self._actor_loss, batch)
        self._update_targets()
        return output

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = self._run(self._model, obs, mode="compute_actor")
        action_ND = sample(output["logit"])
        assert isinstance(action_ND, Tensor)
        return output | {"action": action_ND.clamp(-1.0, 1.0)}

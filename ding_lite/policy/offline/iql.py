"""Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169). It never evaluates actions that the data lack.

V learns the value of the better actions in the data, Q learns from V, and the actor imitates better actions more:

    L_value = mean |tau - 1(u < 0)| u^2,  u = min_c Q'_c(s, a) - V(s)
    L_critic = sum_c mean (r + gamma (1 - done) V(s') - Q_c(s, a))^2
    L_actor = -mean min(exp(beta u), 100) log pi(a | s)

Q' follows the critics slowly. All three losses use the networks from before the iteration. As in the authors' code, pi
is a normal that is not squashed, with one sigma per dimension, which is at least exp(-5).

Logged: see `policy.qac`; `q_value` and `v_value`, means of Q(s, a) and V(s); `adv`, of u; `adv_weight`, of the weights
of L_actor; `log_prob`, of log pi(a | s).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.policy.continuous.qac import QACPolicy
from ding_lite.policy.offline.source import REPLAY_KEYS, OfflinePolicy
from ding_lite.rl_utils.distribution import log_prob, sample
from ding_lite.rl_utils.q_continuous import advantage_weight, expectile_error, q_td_error
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY

LEAST_SIGMA = math.exp(-5.0)  # without a bound, the likelihood of a data set with one action per state is unbounded


@POLICY_REGISTRY.register("iql")
class IQLPolicy(OfflinePolicy, QACPolicy):
    """IQL. Override `_value_loss`, `_critic_loss` or `_actor_loss` to change what is minimised."""

    config: ClassVar[dict[str, Any]] = dict(
        type="iql",
        learn=dict(
            learning_rate_q=Key(3e-4, "step size of the critics' Adam", low=0, high=10**6),
            learning_rate_value=Key(3e-4, "step size of the value's Adam", low=0, high=10**6),
            learning_rate_policy=Key(3e-4, "step size of the actor's Adam", low=0, high=10**6),
            tau=Key(0.7, "expectile: 0.5 values the data's policy, towards 1 its best actions", above=0, below=1),
            beta=Key(3.0, "inverse temperature: 0 imitates all actions alike", low=0),
        ),
    )
    config_without: ClassVar[tuple[str, ...]] = (*REPLAY_KEYS, "collect.noise_sigma")
    networks: ClassVar[tuple[str, ...]] = ("value", "critic", "actor")

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "continuous_qvac", ["ding_lite.model"]

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        self._add_optimizer("value", self._model.value, self._value_loss, learn.learning_rate_value)
        self._add_optimizer("critic", self._model.critic, self._critic_loss, learn.learning_rate_q)
        self._add_optimizer("actor", self._model.actor, self._actor_loss, learn.learning_rate_policy)
        self._target_critic = self._add_target("critic")

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "q_value", "v_value", "adv", "adv_weight", "log_prob"]

    def _value_loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the value's loss and detached figures, `adv` `[B]` among them. Pure in the networks and the batch."""
        with torch.no_grad():
            q_B = self._run(self._target_critic, batch["obs"], action=batch["action"]).amin(0)
        v_B = self._run(self._model.value, batch["obs"])[0]
        adv_B = q_B - v_B
        return expectile_error(adv_B, self._cfg.learn.tau), {"adv": adv_B.detach(), "v_value": v_B.detach()}

    def _critic_loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the critics' loss and detached figures. Pure in networks and batch, with `next_value` `[B]`."""
        q_CB = self._run(self._model.critic, batch["obs"], action=batch["action"])
        loss, _ = q_td_error(q_CB, batch["next_value"], batch["reward"], batch["done"], batch["value_gamma"])
        return loss, {"q_value": q_CB.detach()}

    def _actor_loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the actor's loss and detached figures. Pure in the networks and the batch, with `adv` `[B]`."""
        logit = self._run(self._model.actor, batch["obs"])
        logp_B = log_prob(logit | {"sigma": logit["sigma"].clamp(min=LEAST_SIGMA)}, batch["action"])
        weight_B = advantage_weight(batch["adv"], self._cfg.learn.beta)
        return -(weight_B * logp_B).mean(), {"adv_weight": weight_B, "log_prob": logp_B.detach()}

    def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        batch = self._prepare(batch)
        with torch.no_grad():
            batch["next_value"] = self._run(self._model.value, batch["next_obs"])[0]
        output = self._step("value", batch)
        batch["adv"] = output["adv"]
        output |= self._step("critic", batch) | self._step("actor", batch)
        self._update_targets()
        return output

    def _explore(self, output: dict[str, Any]) -> Tensor:
        action_ND = sample(output["logit"])
        assert isinstance(action_ND, Tensor)
        return action_ND.clamp(-1.0, 1.0)

    def _mode(self, logit: dict[str, Tensor]) -> Tensor:
        return logit["mu"]  # the model keeps it within -1..1

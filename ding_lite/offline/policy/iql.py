"""Implicit Q-learning (IQL, Kostrikov et al. 2021, arXiv:2110.06169). It evaluates only actions that are in the data.

V learns the value of the better actions in the data, Q learns from V, and the actor imitates better actions more
(equations 5 to 7 of the paper):

    L_value = mean |tau - 1(u < 0)| u^2,  u = min_c Q'_c(s, a) - V(s)
    L_critic = sum_c mean (r + gamma (1 - done) V(s') - Q_c(s, a))^2
    L_actor = -mean min(exp(beta u), 100) log pi(a | s)

Q' is a target network that follows the critics slowly.

Logged figures, in addition to those of the networks as in `policy/continuous/ddpg.py`:

* `q_value`, `v_value`: the means of Q(s, a) and V(s).
* `adv`: the mean of u. `adv_weight`: the mean of min(exp(beta u), 100).
* `log_prob`: the mean of log pi(a | s).

As in the authors' code, pi is a normal distribution that is not squashed by tanh; its sigma has one value per
dimension, at least exp(-5), and does not depend on the observation. Unlike in their code, u in L_actor and V(s') in
L_critic are computed before the iteration's step of V.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import gymnasium
import torch
from torch import Tensor, nn

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import DATASET_KEYS, NORMAL_KEYS, NSTEP_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS
from ding_lite.policy.continuous.sac import INIT_W, init_last_layers
from ding_lite.rl_utils.common import bootstrapped, sum_of_means
from ding_lite.rl_utils.distribution import log_prob, sample
from ding_lite.rl_utils.q_continuous import advantage_weight, expectile_error
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY

LEAST_SIGMA = math.exp(-5.0)  # else the likelihood of data with one action per state could grow without limit


@POLICY_REGISTRY.register("iql")
class IQLPolicy(Policy):
    """IQL. Override `_value_loss`, `_critic_loss` or `_actor_loss` to change the objective."""

    key_groups = (DATASET_KEYS, NSTEP_KEYS, SOFT_TARGET_KEYS, NORMAL_KEYS, TWIN_CRITIC_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="iql",
        model=dict(
            actor_head_hidden_size=Key(512, "size of the hidden layers of the actor's head"),
            actor_head_layer_num=Key(3, "hidden layers in addition to the first one"),
            critic_head_hidden_size=Key(512, "size of the hidden layers of a critic's head, and of the value's"),
            critic_head_layer_num=Key(2, "hidden layers in addition to the first one"),
            activation=Key("silu", "one of 'relu', 'tanh', 'gelu', 'elu', 'silu'"),
        ),
        learn=dict(
            batch_size=256,
            learning_rate_q=Key(3e-4, "learning rate of the critics' optimizer", low=0, high=10**6),
            learning_rate_value=Key(3e-4, "learning rate of the value's optimizer", low=0, high=10**6),
            learning_rate_policy=Key(3e-4, "learning rate of the actor's optimizer", low=0, high=10**6),
            tau=Key(0.7, "expectile: 0.5 values the data's policy, values near 1 its best actions", above=0, below=1),
            init_w=INIT_W,
            beta=Key(1.0, "inverse temperature of the imitation weights: 0 imitates all actions equally", low=0),
        ),
    )
    model_type = "continuous_qvac"
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "dataset"
    action_spaces = (gymnasium.spaces.Box,)
    unit_actions = True
    actor_mode = "compute_actor"
    _model: Any
    model_attributes = ("actor", "critic", "value")
    logged_figures = ("q_value", "v_value", "adv", "adv_weight", "log_prob")

    def _create_model(self) -> nn.Module:
        model: Any = super()._create_model()
        init_last_layers([model.value, model.critic, model.actor], self._cfg.learn.init_w)
        return model

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._add_optimizer("value", self._model.value, learn.learning_rate_value)
        self._add_optimizer("critic", self._model.critic, learn.learning_rate_q)
        self._add_optimizer("actor", self._model.actor, learn.learning_rate_policy)
        self._target_critic = self._add_target("critic")

    def _value_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_value and detached figures, which include `adv` `[B]`."""
        with torch.no_grad():
            q_B = self._run(self._target_critic, batch["obs"], action=batch["action"]).amin(0)
        v_B = self._run(self._model.value, batch["obs"])[0]
        adv_B = q_B - v_B
        return expectile_error(adv_B, self._cfg.learn.tau), {"adv": adv_B.detach(), "v_value": v_B.detach()}

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_critic and detached figures, for a batch with `next_value` `[B]`, V(s')."""
        q_CB = self._run(self._model.critic, batch["obs"], action=batch["action"])
        return sum_of_means((bootstrapped(batch, batch["next_value"]) - q_CB).square()), {"q_value": q_CB.detach()}

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_actor and detached figures, for a batch with `adv` `[B]`, u."""
        logit = self._run(self._model.actor, batch["obs"])
        logp_B = log_prob(logit | {"sigma": logit["sigma"].clamp(min=LEAST_SIGMA)}, batch["action"])
        weight_B = advantage_weight(batch["adv"], self._cfg.learn.beta)
        return -(weight_B * logp_B).mean(), {"adv_weight": weight_B, "log_prob": logp_B.detach()}

    def _forward_learn(self, batch: Batch) -> Figures:
        with torch.no_grad():
            batch["next_value"] = self._run(self._model.value, batch["next_obs"])[0]
        output = self._optimizers["value"].step(self._value_loss, batch)
        batch["adv"] = output["adv"]
        output |= self._optimizers["critic"].step(self._critic_loss, batch)
        output |= self._optimizers["actor"].step(self._actor_loss, batch)
        self._update_targets()
        return output

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = self._run(self._model, obs, mode="compute_actor")
        action_ND = sample(output["logit"])
        assert isinstance(action_ND, Tensor)
        return output | {"action": action_ND.clamp(-1.0, 1.0)}

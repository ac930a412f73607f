"""Soft Q-network, SQN: soft Q-learning with two Q-networks and a learned temperature, for discrete actions.

It is soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905) without an actor: the policy is pi = softmax(Q / alpha)
itself. Both networks learn towards the soft value of the smaller of their targets:

    y_t = r_t + g r_{t+1} + ... + g^{n-1} r_{t+n-1} + g^n (1 - done) V(s_{t+n})
    V(s) = sum_a pi(a | s) (Q'(s, a) - alpha log pi(a | s)) = alpha log sum_a exp(Q'(s, a) / alpha)
    L_q = sum_c mean (Q_c(s_t, a_t) - y_t)^2,   Q' = min_c Q'_c,   pi = softmax(Q' / alpha)
    L_alpha = log alpha mean(H(pi(. | s_{t+n})) - target entropy)

with discount g, target networks Q'_c and the entropy H. alpha rises while the entropy is below its target. Actions are
drawn from softmax(Q_0 / alpha), or with probability epsilon at random; evaluations play the argmax of Q_0.

A priority is the mean over the networks of |y - Q_c|.

Shapes: B samples, N environments, A actions, C networks.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor

from ding_lite.model.masks import average_allowed
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import EPSILON_KEYS, REPLAY_KEYS
from ding_lite.rl_utils.common import bootstrapped, pick, weighted_mean
from ding_lite.rl_utils.distribution import entropy
from ding_lite.rl_utils.q_continuous import temperature_error
from ding_lite.rl_utils.soft_q import epsilon_softmax, soft_value
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.torch_utils.optimizer import Coefficient
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError


@POLICY_REGISTRY.register("sqn")
class SQNPolicy(Policy):
    """SQN. Override `_q_loss` or `_alpha_loss` to change the objective."""

    key_groups = (REPLAY_KEYS, EPSILON_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="sqn",
        learn=dict(
            update_per_collect=Key(16, "learner iterations after each collect", low=1),
            learning_rate_q=Key(0.001, "learning rate of the Q-networks' optimizer", low=0, high=10**6),
            learning_rate_alpha=Key(0.001, "learning rate of alpha's optimizer", low=0, high=10**6),
            alpha=Key(
                0.2,
                "initial temperature, in units of the reward",
                above=0,
                constant="it is learned from this value on",
            ),
            target_entropy=Key(0.2, "entropy that alpha is adjusted to reach, in nats; below log A", low=0),
            target_theta=Key(0.005, "share of the networks mixed into the targets per iteration", above=0, high=1),
        ),
        other=dict(eps=dict(start=1.0, end=0.05, decay=2000)),
    )
    model_type = "sqn"
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Discrete,)
    logged_figures = ("q_value", "soft_value", "entropy", "alpha", "epsilon")

    def _init_learn(self) -> None:
        learn, num_actions = self._cfg.learn, self._cfg.model.get("action_shape")
        largest = max(self.schedules.numbers("learn.target_entropy"))
        if num_actions is not None and largest >= math.log(num_actions):
            raise ConfigError(
                f"policy.learn.target_entropy={largest} cannot be reached: the entropy of {num_actions} "
                f"actions is at most {math.log(num_actions):.3f} nats: reduce it."
            )
        self._acting["alpha"] = self._alpha = Coefficient(learn.alpha).to(self._device, self._dtype)
        self._add_optimizer("q", self._model, learn.learning_rate_q)
        self._add_optimizer("alpha", self._alpha, learn.learning_rate_alpha)
        self._target_model = self._add_target("q")

    def _q_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_q for a batch as `DQNPolicy._loss` takes it, and figures, among them `entropy` `[B]`."""
        q_CBA = self._run(self._model, batch["obs"])["q_value"]
        with torch.no_grad():
            alpha = self._alpha()
            target_q_BA = self._run(self._target_model, batch["next_obs"])["q_value"].amin(0)
            value_B = soft_value(target_q_BA, alpha)
            target_B = bootstrapped(batch, value_B)
        errors = [target_B - pick(q_BA, batch["action"]) for q_BA in q_CBA]
        loss = torch.stack([weighted_mean(error_B.square(), batch.get("weight")) for error_B in errors]).sum()
        priority_B = torch.stack(errors).detach().abs().mean(0)
        figures = {"q_value": q_CBA.detach(), "soft_value": value_B, "entropy": entropy(target_q_BA / alpha)}
        return loss, {"priority": priority_B, **figures}

    def _alpha_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_alpha, and alpha as a figure, for a batch with `entropy` `[B]`."""
        loss = temperature_error(self._alpha.learned, -batch["entropy"], self._cfg.learn.target_entropy)
        return loss, {"alpha": self._alpha().detach()}

    def _forward_learn(self, batch: Batch) -> Figures:
        output = self._optimizers["q"].step(self._q_loss, batch)
        output |= self._optimizers["alpha"].step(self._alpha_loss, {"entropy": output["entropy"]})
        self._update_targets()
        return average_allowed(output, batch["obs"])

    def _state_dict_learn(self) -> dict[str, Any]:
        return super()._state_dict_learn() | {"alpha": self._alpha.state_dict()}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        if "optimizer" in state:
            self._alpha.load_state_dict(state["alpha"])

    def _init_collect(self) -> None:
        if "q" not in self._optimizers:  # nothing is learned: the temperature is that of a loaded state
            self._acting["alpha"] = self._alpha = Coefficient(self._cfg.learn.alpha).to(self._device, self._dtype)

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, eps: float = 0.0, **kwargs: Any) -> Output:
        logit_NA = self._run(self._model, obs)["logit"]
        return {"logit": logit_NA, "action": epsilon_softmax(logit_NA, eps, self._alpha())}

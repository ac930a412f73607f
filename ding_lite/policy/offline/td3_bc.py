"""TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860): TD3 (Fujimoto et al. 2018, arXiv:1802.09477) that imitates the data.

The critics learn from a target action with noise, the actor from Q and from the data's actions:

    y = r + gamma (1 - done) min_c Q'_c(s', a'),  a' = clip(pi'(s') + clip(sigma eps, low, high), -1, 1)
    L_critic = sum_c mean (y - Q_c(s, a))^2
    L_actor = -lambda mean Q_1(s, pi(s)) + mean (pi(s) - a)^2,  lambda = alpha / mean |Q_1(s, pi(s))|

The actor and both target networks are updated once in `actor_update_freq` iterations.

Logged figures, in addition to those of `policy/continuous/qac.py`:

* `q_value`: the mean of Q(s, a). `td_error`: the mean of |y - Q(s, a)|.
* `bc_loss`: the second term of L_actor.
* `q_scale`: mean |Q_1(s, pi(s))| over the samples of all ranks.

Deviation from the paper: observations are not normalised. If they should be, normalise them in the data set and in the
environment.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.policy.continuous.qac import QACPolicy
from ding_lite.policy.offline.source import REPLAY_KEYS, OfflinePolicy
from ding_lite.rl_utils.q_continuous import q_td_error, td3_bc_actor_error
from ding_lite.utils.dist.collectives import allreduce_data
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError


@POLICY_REGISTRY.register("td3_bc")
class TD3BCPolicy(OfflinePolicy, QACPolicy):
    """TD3+BC. Override `_critic_loss` or `_actor_loss` to change what is minimised."""

    config: ClassVar[dict[str, Any]] = dict(
        type="td3_bc",
        model=dict(
            action_space=Key("regression", "what the actor returns: an action"),
        ),
        learn=dict(
            learning_rate_actor=Key(1e-3, "step size of the actor's optimizer", low=0, high=10**6),
            learning_rate_critic=Key(1e-3, "step size of the critics' optimizer", low=0, high=10**6),
            actor_update_freq=Key(2, "learner iterations between two updates of the actor and the targets", low=1),
            noise=Key(True, "add noise to the target action"),
            noise_sigma=Key(0.2, "standard deviation of the noise on the target action", low=0),
            noise_range=dict(
                min=Key(-0.5, "lower bound of the noise on the target action"),
                max=Key(0.5, "upper bound of the noise on the target action"),
            ),
            alpha=Key(2.5, "weight of Q relative to imitation", low=0),
        ),
    )
    config_without: ClassVar[tuple[str, ...]] = REPLAY_KEYS
    action_space: ClassVar[str] = "regression"

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        low, high = cfg.policy.learn.noise_range.min, cfg.policy.learn.noise_range.max
        if low > high:
            raise ConfigError(f"policy.learn.noise_range: expected min <= max, got {low} and {high}: swap them.")

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        self._add_optimizer("critic", self._model.critic, self._critic_loss, learn.learning_rate_critic)
        self._add_optimizer("actor", self._model.actor, self._actor_loss, learn.learning_rate_actor)
        self._target_critic, self._target_actor = self._add_target("critic"), self._add_target("actor")
        self._iterations = 0

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "q_value", "td_error", "bc_loss", "q_scale"]

    def _draw_noise(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        return {"target": torch.randn_like(batch["action"].reshape(len(batch["action"]), -1))}

    def _critic_loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return L_critic and detached figures, for a batch as `_prepare` returns it."""
        with torch.no_grad():
            action_BD = self._run(self._target_actor, batch["next_obs"])
            if self._cfg.learn.noise:
                low, high = self._cfg.learn.noise_range.min, self._cfg.learn.noise_range.max
                noise_BD = (batch["noise"]["target"] * self._cfg.learn.noise_sigma).clamp(low, high)
                action_BD = (action_BD + noise_BD).clamp(-1.0, 1.0)
            value_B = self._run(self._target_critic, batch["next_obs"], action=action_BD).amin(0)
        q_CB = self._run(self._model.critic, batch["obs"], action=batch["action"])
        loss, error_CB = q_td_error(q_CB, value_B, batch["reward"], batch["done"], batch["value_gamma"])
        return loss, {"q_value": q_CB.detach(), "td_error": error_CB.abs()}

    def _actor_loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return L_actor and detached figures. All ranks must call it together, because it averages over ranks."""
        action_BD = self._run(self._model.actor, batch["obs"])
        q_B = self._run_frozen(self._model.critic, batch["obs"], action=action_BD)[0]
        q_scale = allreduce_data(q_B.detach().abs().mean(), op="mean")
        loss, bc_loss = td3_bc_actor_error(q_B, action_BD, batch["action"], q_scale, self._cfg.learn.alpha)
        return loss, {"bc_loss": bc_loss, "q_scale": q_scale}

    def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        batch = self._prepare(batch)
        output = self._step("critic", batch)
        self._iterations += 1
        if self._iterations % self._cfg.learn.actor_update_freq == 0:
            output |= self._step("actor", batch)
            self._update_targets()
        return output

    def _state_dict_learn(self) -> dict[str, Any]:
        return super()._state_dict_learn() | {"iterations": self._iterations}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        self._iterations = state["iterations"] if "optimizer" in state else 0

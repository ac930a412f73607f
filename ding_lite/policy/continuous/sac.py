"""Soft actor-critic, SAC (Haarnoja et al. 2018, arXiv:1812.05905).

The policy maximises the return and its own entropy, weighted by alpha:

    y = r + g (1 - done) (min_c Q'_c(s', a') - alpha log pi(a' | s')),  a' ~ pi(. | s')
    L_critic = sum_c mean w (y - Q_c(s, a))^2
    L_actor = mean alpha log pi(a | s) - min_c Q_c(s, a),  a ~ pi(. | s)
    L_alpha = -log alpha mean(log pi(a | s) + target entropy),  target entropy -D

r is the discounted sum of n rewards, g the discount of the value after them, s' the state after them, and w the
importance weight of prioritised replay, or 1. pi is the tanh of a normal variable, see `rl_utils/q_continuous.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import NORMAL_KEYS, REPLAY_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS
from ding_lite.rl_utils.common import bootstrapped, sum_of_means
from ding_lite.rl_utils.q_continuous import squashed_sample, temperature_error
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.torch_utils.optimizer import Coefficient
from ding_lite.utils.key import Groups, Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.schedule import Scheduled

INIT_W = Key(
    3e-3,
    "initial parameters of last layers are uniform in -init_w..init_w; None: as torch chooses",
    type=(float, None),
    low=0,
    constant="parameters are initialised once",
)


@POLICY_REGISTRY.register("sac")
class SACPolicy(Policy):
    """SAC. Override `_critic_loss` or `_actor_loss` to change the objective."""

    key_groups: ClassVar[Groups] = (REPLAY_KEYS, SOFT_TARGET_KEYS, NORMAL_KEYS, TWIN_CRITIC_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="sac",
        random_collect_size=10000,
        learn=dict(
            batch_size=256,
            learning_rate_q=Key(3e-4, "learning rate of the critics' optimizer", low=0, high=10**6),
            learning_rate_policy=Key(3e-4, "learning rate of the actor's optimizer", low=0, high=10**6),
            learning_rate_alpha=Key(3e-4, "learning rate of alpha's optimizer", low=0, high=10**6),
            alpha=Key(0.2, "weight of the entropy; with auto_alpha its initial value", above=0),
            auto_alpha=Key(True, "learn alpha so that the policy's entropy approaches target_entropy"),
            log_space=Key(True, "learn the logarithm of alpha instead of alpha itself"),
            target_entropy=Key(None, "in nats; None: minus the number of action dimensions", type=float),
            init_w=INIT_W,
        ),
        other=dict(
            replay_buffer=dict(replay_buffer_size=1000000),
        ),
    )
    model_type = "continuous_qac"
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Box,)
    unit_actions = True
    actor_mode = "compute_actor"
    small_at_first: ClassVar[tuple[str, ...]] = ("actor",)  # networks whose last layers `learn.init_w` initialises
    _model: Any
    model_attributes = ("actor", "critic")
    logged_figures: ClassVar[tuple[str, ...]] = ("q_value", "td_error", "log_prob", "alpha")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        learn = cfg.policy.learn
        if learn.auto_alpha and isinstance(learn.alpha, Scheduled):
            raise ConfigError(
                "policy.learn.alpha is a schedule, but policy.learn.auto_alpha=True learns alpha: give a number, or "
                "set auto_alpha=False."
            )

    def _create_model(self) -> nn.Module:
        model = super()._create_model()
        init_last_layers([getattr(model, name) for name in self.small_at_first], self._cfg.learn.init_w)
        return model

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._add_optimizer("critic", self._model.critic, learn.learning_rate_q)
        self._add_optimizer("actor", self._model.actor, learn.learning_rate_policy)
        self._alpha = Coefficient(learn.alpha, learn.log_space).to(self._device, self._dtype)
        self._alpha_is_scheduled = isinstance(self.schedules.follower("learn.alpha"), Scheduled)
        if learn.auto_alpha:
            self._add_optimizer("alpha", self._alpha, learn.learning_rate_alpha)
        self._target_critic = self._add_target("critic")

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        action_BD = batch["action"].reshape(len(batch["action"]), -1)
        return {name: torch.randn_like(action_BD, dtype=self._dtype) for name in ("next", "actor")}

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        with torch.no_grad():
            logit = self._run(self._model.actor, batch["next_obs"])
            action_BD, logp_B = squashed_sample(logit, batch["noise"]["next"])
            next_q_CB = self._run(self._target_critic, batch["next_obs"], action=action_BD)
            value_B = self._next_value(next_q_CB, batch) - self._alpha() * logp_B
        q_CB = self._run(self._model.critic, batch["obs"], action=batch["action"])
        target_B = bootstrapped(batch, value_B)
        error_CB = target_B - q_CB
        loss = sum_of_means(error_CB.square(), batch.get("weight"))
        error_B = error_CB.detach().abs().mean(0)
        return loss, {"q_value": q_CB.detach(), "td_error": error_B, "priority": self._priority(error_B)}

    def _next_value(self, q_CB: Tensor, batch: Batch) -> Tensor:
        """Return the value `[B]` of the next action, from those of all target critics."""
        return q_CB.amin(0)

    def _priority(self, error_B: Tensor) -> Tensor:
        """Return the priorities `[B]` of samples in replay, for the sizes of their errors."""
        return error_B

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_actor and detached figures, which include `log_prob` `[B]`."""
        action_BD, logp_B = squashed_sample(self._run(self._model.actor, batch["obs"]), batch["noise"]["actor"])
        q_B = self._actor_value(self._run_frozen(self._model.critic, batch["obs"], action=action_BD))
        return (self._alpha().detach() * logp_B - q_B).mean(), {"log_prob": logp_B.detach()}

    def _actor_value(self, q: Tensor) -> Tensor:
        """Return the value `[B]` that the actor maximises, from what all critics return, `[C, B, ...]`."""
        return q.amin(0)

    def _alpha_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_alpha, and alpha as a figure, for a batch with `log_prob` `[B]`."""
        target = self._cfg.learn.target_entropy
        target = -float(batch["action"].shape[-1]) if target is None else target
        return temperature_error(self._alpha.learned, batch["log_prob"], target), {"alpha": self._alpha().detach()}

    def _forward_learn(self, batch: Batch) -> Figures:
        if self._alpha_is_scheduled:
            self._alpha.set(self._cfg.learn.alpha)
        output = self._optimizers["critic"].step(self._critic_loss, batch)
        if self._optimizers["critic"].steps % self._cfg.learn.get("actor_update_freq", 1) == 0:  # a key of REDQ
            output |= self._optimizers["actor"].step(self._actor_loss, batch)
            if self._cfg.learn.auto_alpha:
                output |= self._optimizers["alpha"].step(self._alpha_loss, batch | output)
            self._alpha.bound()
        self._update_targets()
        return output

    def _state_dict_learn(self) -> dict[str, Any]:
        return super()._state_dict_learn() | {"alpha": self._alpha.learned.detach()}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        if "optimizer" in state and self._cfg.learn.auto_alpha:
            self._alpha.learned.data.copy_(state["alpha"])

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = self._run(self._model, obs, explore=True, mode="compute_actor")
        return output | {"action": squashed_sample(output["logit"], torch.randn_like(output["logit"]["mu"]))[0]}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        output = self._run(self._model, obs, explore=False, mode="compute_actor")
        return output | {"action": output["logit"]["mu"].tanh()}


def init_last_layers(networks: list[nn.Module], bound: float | None) -> None:
    """Draw the parameters of the last layers of networks, or of their heads, from -bound..bound, unless it is None."""
    if bound is None:
        return
    for head in (head for network in networks for head in getattr(network, "heads", [network])):
        *_, last = (module for module in head.modules() if isinstance(module, nn.Linear))
        for parameter in last.parameters():
            nn.init.uniform_(parameter, -bound, bound)

"""Deep deterministic policy gradient, DDPG (Lillicrap et al. 2015, arXiv:1509.02971), and TD3.

The critic learns the value of the actor's actions, and the actor maximises it:

    y = r + g (1 - done) min_c Q'_c(s', a'),  a' = pi'(s')  [or clip(pi'(s') + clip(sigma eps, low, high), -1, 1)]
    L_critic = sum_c mean w (y - Q_c(s, a))^2
    L_actor = -mean Q_1(s, pi(s))

There is one critic, or two with `model.twin_critic`. The term in brackets is used if `learn.noise` is set. r is the
discounted sum of n rewards, g the discount of the value after them, s' the state after them, and w the importance
weight of prioritised replay, or 1. The actor and both target networks are updated once every `actor_update_freq`
iterations.

Every network has its own optimizer. Continuous actions are between -1 and 1; `env.act_scale` maps them to the bounds of
the environment. Recorded actions outside these bounds are clipped, as the environment clipped them then.

For exploration, noise is added to the actor's action. It is Gaussian, or an Ornstein-Uhlenbeck process that starts at 0
in every episode, see `rl_utils/exploration.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import NOISE_SIGMA, REPLAY_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS
from ding_lite.rl_utils.common import bootstrapped, sum_of_means
from ding_lite.rl_utils.exploration import ornstein_uhlenbeck
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Groups, Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError


@POLICY_REGISTRY.register("ddpg")
class DDPGPolicy(Policy):
    """DDPG. Override `_critic_loss` or `_actor_loss` to change the objective."""

    key_groups: ClassVar[Groups] = (REPLAY_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="ddpg",
        random_collect_size=25000,
        model=dict(
            twin_critic=False,
            action_space=Key("regression", "what the actor returns: an action", choices=("regression",)),
        ),
        learn=dict(
            batch_size=256,
            learning_rate_actor=Key(1e-3, "learning rate of the actor's optimizer", low=0, high=10**6),
            learning_rate_critic=Key(1e-3, "learning rate of the critics' optimizer", low=0, high=10**6),
            actor_update_freq=Key(1, "learner iterations between two updates of the actor and the targets", low=1),
            noise=Key(False, "add noise to the target action"),
            noise_sigma=Key(0.2, "standard deviation of the noise on the target action", low=0),
            noise_range=dict(
                min=Key(-0.5, "lower bound of the noise on the target action"),
                max=Key(0.5, "upper bound of the noise on the target action"),
            ),
        ),
        collect=dict(
            noise_sigma=NOISE_SIGMA,
            noise_type=Key(
                "gauss",
                "noise on the collected actions: 'gauss', or 'ou' for an Ornstein-Uhlenbeck process",
                choices=("gauss", "ou"),
            ),
        ),
        other=dict(
            replay_buffer=dict(replay_buffer_size=1000000),
        ),
    )
    model_type = "continuous_qac"
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Box,)
    unit_actions = True
    actor_mode = "compute_actor"
    _model: Any
    model_attributes = ("actor", "critic")
    logged_figures: ClassVar[tuple[str, ...]] = ("q_value", "td_error")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        low, high = cfg.policy.learn.noise_range.min, cfg.policy.learn.noise_range.max
        if low > high:
            raise ConfigError(f"policy.learn.noise_range: expected min <= max, got {low} and {high}: swap them.")

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._add_optimizer("critic", self._model.critic, learn.learning_rate_critic)
        self._add_optimizer("actor", self._model.actor, learn.learning_rate_actor)
        self._target_critic, self._target_actor = self._add_target("critic"), self._add_target("actor")

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        if not self._cfg.learn.noise:
            return {}
        action_BD = batch["action"].reshape(len(batch["action"]), -1)  # integers, if a data set holds whole numbers
        return {"target": torch.randn_like(action_BD, dtype=self._dtype)}

    def _target_action(self, batch: Batch) -> Tensor | dict[str, Tensor]:
        """Return the action a' `[B, D]` whose value the critics bootstrap from."""
        return self._smooth(self._run(self._target_actor, batch["next_obs"]), batch)

    def _smooth(self, action_BD: Tensor, batch: Batch) -> Tensor:
        """Return an action of the target actor with the noise of `learn.noise`."""
        if not self._cfg.learn.noise:
            return action_BD
        low, high = self._cfg.learn.noise_range.min, self._cfg.learn.noise_range.max
        noise_BD = (batch["noise"]["target"] * self._cfg.learn.noise_sigma).clamp(low, high)
        return (action_BD + noise_BD).clamp(-1.0, 1.0)

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        with torch.no_grad():
            action_BD = self._target_action(batch)
            value_B = self._run(self._target_critic, batch["next_obs"], action=action_BD).amin(0)
        q_CB = self._run(self._model.critic, batch["obs"], action=batch["action"])
        target_B = bootstrapped(batch, value_B)
        error_CB = target_B - q_CB
        loss = sum_of_means(error_CB.square(), batch.get("weight"))
        error_B = error_CB.detach().abs().mean(0)
        return loss, {"q_value": q_CB.detach(), "td_error": error_B, "priority": self._priority(error_B)}

    def _priority(self, error_B: Tensor) -> Tensor:
        """Return the priorities `[B]` of samples in replay, for the sizes of their errors."""
        return error_B

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        action_BD = self._run(self._model.actor, batch["obs"])
        return -self._run_frozen(self._model.critic, batch["obs"], action=action_BD, num=1)[0].mean(), {}

    def _forward_learn(self, batch: Batch) -> Figures:
        output = self._optimizers["critic"].step(self._critic_loss, batch)
        if self._optimizers["critic"].steps % self._cfg.learn.actor_update_freq == 0:
            output |= self._optimizers["actor"].step(self._actor_loss, batch)
            self._update_targets()
        return output

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = self._run(self._model, obs, explore=True, mode="compute_actor")
        return output | {"action": self._explore(output["action"])}

    def _explore(self, action_ND: Tensor) -> Tensor:
        """Return the actor's action with noise."""
        sigma, noise_ND = self._cfg.collect.noise_sigma, torch.randn_like(action_ND)
        if self._cfg.collect.noise_type == "gauss":
            return (action_ND + noise_ND * sigma).clamp(-1.0, 1.0)
        memory = self._memory[True]
        memory["noise"] = ornstein_uhlenbeck(memory.get("noise", torch.zeros_like(action_ND)), noise_ND, sigma)
        return (action_ND + memory["noise"]).clamp(-1.0, 1.0)


TD3_KEYS: dict[str, Any] = dict(
    model=dict(twin_critic=True),
    learn=dict(actor_update_freq=2, noise=True),
    eval=dict(evaluator=dict(eval_freq=5000)),
)


@POLICY_REGISTRY.register("td3")
class TD3Policy(DDPGPolicy):
    """Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477), with three changes against overestimated values.

    The smaller of two critics is the estimate, the target action is smoothed by noise, and the actor and the targets
    are updated once every two iterations.
    """

    config: ClassVar[dict[str, Any]] = dict(
        type="td3", **TD3_KEYS, other=dict(replay_buffer=dict(replay_buffer_size=100000))
    )

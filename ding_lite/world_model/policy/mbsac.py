"""SAC with value expansion and value gradients through a world model, MBSAC.

From s_0 the policy imagines H steps: a_t ~ pi(. | s_t), and r_t, s_{t+1} and done_t of the model. With the value
V_t = min_c Q'_c(s_t, a_t) - alpha log pi(a_t | s_t) of the target critics, the lambda returns are

    y_t = r_t + g (1 - done_t) ((1 - lambda) V_{t+1} + lambda W_{t+1})
    W_t = y_t - alpha log pi(a_t | s_t),  W_H = V_H
    L_critic = sum_c mean w_t (y_t - Q_c(s_t, a_t))^2    (value expansion, Feinberg et al. 2018, arXiv:1803.00101)
    L_actor = -mean w_t W_t                              (value gradient, Heess et al. 2015, arXiv:1510.09142)

over all samples and t < H, where w_t is 0 after a terminal step, else 1; a gradient reaches the actor through s_t and
a_t. Without `sample_state`, the first step is the real one of replay, with its a and r, and no entropy of a; s_0
follows it. With lambda = 0 and H = 0, its y is that of SAC.

Shapes: B samples, T steps, C critics, D dimensions of an action.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.policy.continuous.sac import SACPolicy
from ding_lite.rl_utils.common import bootstrapped, sum_of_means
from ding_lite.rl_utils.q_continuous import squashed_sample
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError


class Path(NamedTuple):
    """Steps whose values are learned: T of them, `obs` and `action` of the first ones.

    `target` is y, what their values should be, and `value` W, which the actor maximises; both are `[T, B]`.
    """

    obs: Tensor
    action: Tensor
    target: Tensor
    value: Tensor
    weight: Tensor  # `[T, B]`, 0 after a terminal step
    log_prob: Tensor  # `[B]`, log pi of the first imagined action


class Expansion(NamedTuple):
    """What expands values to imagined steps."""

    noise_shape: Callable[
        [Any], tuple[int, ...]
    ]  # of a policy: dimensions of the actions drawn for a sample, without D
    find_path: Callable[[Any, Batch], Path]  # of a policy and a batch


def horizon_shape(policy: MBSACPolicy) -> tuple[int, ...]:
    """Return the dimensions of the actions that a path draws for each sample, without D: one for each state."""
    return (1 + (policy.world_model.horizon if policy.world_model else 0),)


def lambda_path(policy: MBSACPolicy, batch: Batch) -> Path:
    """Return the steps of the module's equations; the actor's gradient flows through `value`."""
    noise, cfg, gamma = batch["noise"], policy._cfg.learn, policy._cfg.discount_factor
    obs = batch["obs"] if cfg.sample_state else batch["next_obs"]
    states: list[Any] = []
    steps: list[Any] = []
    for noise_BD, member_B in zip(noise["actor"].unbind(1), noise["member"].unbind(1), strict=True):
        states.append((obs, *policy._value(obs, noise_BD)))
        if len(states) < noise["actor"].shape[1]:
            reward_B, next_obs, done_B = policy.world_model.step(obs, states[-1][1], member_B)
            steps.append((reward_B, done_B))
            obs = torch.where(done_B[:, None], obs, next_obs)  # what goes on after an end may be any number
    value_B = return_B = states[-1][3]
    found: list[Any] = []
    for (state, action, entropy_B, own_B), (reward_B, done_B) in zip(states[-2::-1], steps[::-1], strict=True):
        mixed_B = (1 - cfg.lambda_) * value_B + cfg.lambda_ * return_B
        target_B = reward_B + gamma * mixed_B.masked_fill(done_B, 0.0)
        value_B, return_B = own_B, target_B - entropy_B
        found.append((state, action, target_B, return_B, done_B))
    if not cfg.sample_state:
        target_B = bootstrapped(batch, (1 - cfg.lambda_) * value_B + cfg.lambda_ * return_B)
        found.append((batch["obs"], batch["action"], target_B, target_B, batch["done"]))
    obs, action, target, value, done_TB = (torch.stack(column) for column in zip(*found[::-1], strict=True))
    alive_TB = torch.cat([torch.ones_like(done_TB[:1]), ~done_TB[:-1]]).cumprod(0)
    log_prob = (states[0][2] / policy._alpha().detach()).detach()
    return Path(obs=obs, action=action, target=target, value=value, weight=alive_TB, log_prob=log_prob)


@POLICY_REGISTRY.register("mbsac")
class MBSACPolicy(SACPolicy):
    """MBSAC. Another `expansion` changes what the critics learn and the actor maximises.

    Attributes:
        expansion: how values are expanded.
        world_model: what imagines steps, see `MBPOWorldModel`; None: H is 0.
    """

    config: ClassVar[dict[str, Any]] = dict(
        type="mbsac",
        learn=dict(
            grad_clip_type="clip_norm",
            grad_clip_value=100.0,
            lambda_=Key(0.8, "weight of the return against the value after each step", low=0, high=1),
            sample_state=Key(False, "begin in states of replay; False: after its steps, whose values are learned too"),
        ),
    )
    expansion = Expansion(horizon_shape, lambda_path)
    world_model: Any = None

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        for key in ("norm_obs", "norm_reward"):
            if cfg.env[key].use_norm:
                raise ConfigError(
                    f"env.{key}=True does not work with policy '{cfg.policy.type}', which learns from what a world "
                    f"model predicts, the environment's own numbers: set env.{key}=False."
                )
        if cfg.policy.learn.sample_state and "world_model" not in cfg:
            raise ConfigError(
                "policy.learn.sample_state=True needs imagined steps: set create_config.world_model=dict(type='mbpo')."
            )

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        size, num_dims, shape = len(batch["action"]), batch["action"].shape[-1], self.expansion.noise_shape(self)
        actor = torch.randn(size, *shape, num_dims, device=self._device, dtype=self._dtype)
        return {"actor": actor, "member": torch.rand(size, shape[0], device=self._device)}

    def _value(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the actor's actions, alpha log pi of them, and V, for observations `[..., *]`."""
        flat = obs.flatten(0, -2)
        action, logp = squashed_sample(self._run(self._model.actor, flat), noise.flatten(0, -2))
        entropy = self._alpha().detach() * logp
        value = self._run_frozen(self._target_critic, flat, action=action).amin(0) - entropy
        shape = obs.shape[:-1]
        return action.view(*shape, -1), entropy.view(shape), value.view(shape)

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        with torch.no_grad():
            path = self.expansion.find_path(self, batch)
        obs, action = path.obs.flatten(0, 1), path.action.flatten(0, 1)
        q_CTB = self._run(self._model.critic, obs, action=action).unflatten(1, path.target.shape)
        error_CTB = path.target - q_CTB
        weight_TB = path.weight * batch["weight"] if "weight" in batch else path.weight
        error_B = error_CTB[:, 0].detach().abs().mean(0)
        figures = {"q_value": q_CTB.detach(), "td_error": error_B, "priority": self._priority(error_B)}
        return sum_of_means(error_CTB.square(), weight_TB), figures

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        path = self.expansion.find_path(self, batch)
        return -(path.weight * path.value).mean(), {"log_prob": path.log_prob}

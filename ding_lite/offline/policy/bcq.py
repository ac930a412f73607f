"""Batch-constrained deep Q-learning, BCQ (Fujimoto et al. 2019, arXiv:1812.02900).

The policy chooses among actions that the data could contain. A variational autoencoder, with encoder E and decoder D,
learns the data's actions of a state; an actor xi changes what the decoder returns a little; and the critics choose:

    L_vae = mean (tanh D(s, z) - a)^2 + 1/2 mean KL(N(mu, sigma) || N(0, 1)),  z ~ N(mu, sigma),  mu, sigma = E(s, a)
    a_k = clip(d_k + phi tanh xi(s, d_k), -1, 1),  d_k = tanh D(s, clip(z_k, -1/2, 1/2)),  z_k ~ N(0, 1)
    y = r + g (1 - done) max_k (lmbda min_c Q'_c(s', a_k) + (1 - lmbda) max_c Q'_c(s', a_k)),  a_k of the target actor
    L_critic = sum_c mean (y - Q_c(s, a))^2
    L_actor = -mean Q_1(s, a_1)
    pi(s) = argmax_k Q_1(s, a_k)

The second mean of L_vae is over samples and dimensions of z. There are 10 actions a_k in a target, and 100 when the
policy acts. r is the discounted sum of n rewards, g the discount of the value after them, s' the state after them.

Logged figures, in addition to those of the networks as in `policy/continuous/ddpg.py`:

* `q_value`: the mean of Q(s, a). `td_error`: the mean of |y - Q(s, a)|.
* `recons_loss`, `kld_loss`: the two means of L_vae, without the factor.

Deviation from the paper: evaluations use the same 100 vectors z_k in every step, so that actions repeat.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor, nn

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import DATASET_KEYS, NSTEP_KEYS, SOFT_TARGET_KEYS
from ding_lite.rl_utils.common import bootstrapped, sum_of_means
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_leaves

TARGET_ACTIONS, PLAYED_ACTIONS = 10, 100  # numbers of actions a_k
LOG_SIGMA_RANGE = (-4.0, 15.0)  # as in the authors' code


@POLICY_REGISTRY.register("bcq")
class BCQPolicy(Policy):
    """BCQ. Override `_vae_loss`, `_critic_loss` or `_actor_loss` to change the objective."""

    key_groups = (DATASET_KEYS, NSTEP_KEYS, SOFT_TARGET_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="bcq",
        model=dict(
            actor_head_hidden_size=Key([400, 300], "sizes of the hidden layers of the actor", type=list[int], low=1),
            critic_head_hidden_size=Key([400, 300], "sizes of the hidden layers of a critic", type=list[int], low=1),
            vae_hidden_dims=Key(
                [750, 750], "sizes of the hidden layers of the autoencoder's two networks", type=list[int], low=1
            ),
            phi=Key(0.05, "largest change of an action by the actor; actions range from -1 to 1", low=0, high=2),
        ),
        learn=dict(
            batch_size=100,
            learning_rate_q=Key(3e-4, "learning rate of the critics' optimizer", low=0, high=10**6),
            learning_rate_policy=Key(3e-4, "learning rate of the actor's optimizer", low=0, high=10**6),
            learning_rate_vae=Key(3e-4, "learning rate of the autoencoder's optimizer", low=0, high=10**6),
            lmbda=Key(0.75, "weight of the smaller value of two critics in a target", low=0, high=1),
        ),
    )
    model_type = "bcq"
    learns_from = "dataset"
    action_spaces = (gymnasium.spaces.Box,)
    unit_actions = True
    _model: Any
    model_attributes = ("actor", "critic", "vae", "latent_size", "phi")
    logged_figures = ("q_value", "td_error", "recons_loss", "kld_loss")

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._add_optimizer("vae", self._model.vae, learn.learning_rate_vae)
        self._add_optimizer("critic", self._model.critic, learn.learning_rate_q)
        self._add_optimizer("actor", self._model.actor, learn.learning_rate_policy)
        self._target_critic, self._target_actor = self._add_target("critic"), self._add_target("actor")

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        latent_BZ = torch.empty(len(batch["action"]), self._model.latent_size, device=self._device, dtype=self._dtype)
        noise = {name: torch.randn_like(latent_BZ) for name in ("vae", "actor")}
        return noise | {"next": torch.randn_like(latent_BZ.expand(TARGET_ACTIONS, *latent_BZ.shape))}

    def _candidates(self, actor: nn.Module, obs: Any, z: Tensor) -> Tensor:
        """Return actions a_k `[..., B, D]` for latent vectors `[..., B, Z]`. A gradient flows to the actor alone."""
        with torch.no_grad():
            d = self._run(self._model.vae.decoder, obs, vector=z.clamp(-0.5, 0.5)).tanh()
        return (d + self._model.phi * self._run(actor, obs, vector=d).tanh()).clamp(-1.0, 1.0)

    def _vae_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_vae and detached figures."""
        mu, log_sigma = self._run(self._model.vae.encoder, batch["obs"], vector=batch["action"]).chunk(2, dim=-1)
        log_sigma = log_sigma.clamp(*LOG_SIGMA_RANGE)
        z = mu + log_sigma.exp() * batch["noise"]["vae"]
        action_BD = self._run(self._model.vae.decoder, batch["obs"], vector=z).tanh()
        recons_loss = (action_BD - batch["action"]).square().mean()
        kld_loss = 0.5 * (mu.square() + (2 * log_sigma).exp() - 2 * log_sigma - 1).mean()
        figures = {"recons_loss": recons_loss.detach(), "kld_loss": kld_loss.detach()}
        return recons_loss + 0.5 * kld_loss, figures

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_critic and detached figures."""
        lmbda = self._cfg.learn.lmbda
        with torch.no_grad():
            action_KBD = self._candidates(self._target_actor, batch["next_obs"], batch["noise"]["next"])
            q_CKB = self._run(self._target_critic, batch["next_obs"], action=action_KBD)
            value_B = (lmbda * q_CKB.amin(0) + (1.0 - lmbda) * q_CKB.amax(0)).amax(0)
        q_CB = self._run(self._model.critic, batch["obs"], action=batch["action"])
        error_CB = bootstrapped(batch, value_B) - q_CB
        return sum_of_means(error_CB.square()), {"q_value": q_CB.detach(), "td_error": error_CB.detach().abs()}

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        action_BD = self._candidates(self._model.actor, batch["obs"], batch["noise"]["actor"])
        return -self._run_frozen(self._model.critic, batch["obs"], action=action_BD, num=1)[0].mean(), {}

    def _forward_learn(self, batch: Batch) -> Figures:
        output = self._optimizers["vae"].step(self._vae_loss, batch)
        output |= self._optimizers["critic"].step(self._critic_loss, batch)
        output |= self._optimizers["actor"].step(self._actor_loss, batch)
        self._update_targets()
        return output

    def _init_eval(self) -> None:
        z_KZ = torch.randn(PLAYED_ACTIONS, self._model.latent_size, generator=torch.Generator().manual_seed(0))
        self._z_KZ = z_KZ.to(self._device, self._dtype)

    def _best(self, obs: Any, z_KNZ: Tensor) -> dict[str, Any]:
        action_KND = self._candidates(self._model.actor, obs, z_KNZ)
        best_N = self._run(self._model.critic, obs, action=action_KND, num=1)[0].argmax(0)
        best_1ND = best_N[None, :, None].expand(1, *action_KND.shape[1:])
        return {"action": action_KND.gather(0, best_1ND)[0]}

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        num_envs = len(next(tree_leaves(obs)))
        z_KNZ = torch.randn(PLAYED_ACTIONS, num_envs, self._model.latent_size, device=self._device, dtype=self._dtype)
        return self._best(obs, z_KNZ)

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        num_envs = next(tree_leaves(obs)).shape[0]  # `len` would be a constant in an exported module
        return self._best(obs, self._z_KZ[:, None].expand(-1, num_envs, -1))

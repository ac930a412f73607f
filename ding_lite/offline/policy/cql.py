"""Conservative Q-learning (CQL, Kumar et al. 2020, arXiv:2006.04779) with SAC (Haarnoja et al. 2018, arXiv:1812.05905).

The critics learn lower values for actions that are not in the data:

    y = r + gamma (1 - done) (min_c Q'_c(s', a') [- alpha log pi(a' | s')]),  a' ~ pi(. | s')
    gap_c = mean log sum_k exp(Q_c(s, a_k) - log p(a_k | s)) - Q_c(s, a)
    L_critic = sum_c mean (y - Q_c(s, a))^2 + min_q_weight gap_c
    L_actor = mean alpha log pi(a | s) - min_c Q_c(s, a),  a ~ pi(. | s)
    L_alpha = -log alpha mean(log pi(a | s) + target entropy),  target entropy -D

There are three times `num_actions` actions a_k: `num_actions` uniform ones, as many from pi(. | s), and as many from
pi(. | s'). p is the density that an action was drawn from. The term in brackets is used if `with_q_entropy` is set.

If `with_lagrange` is set, gap_c is also multiplied by a learned number alpha'. It grows while min_q_weight gap_c is
above `lagrange_thresh` and falls while it is below:

    L_lagrange = -alpha' mean_c(min_q_weight gap_c - lagrange_thresh)

Logged figures, in addition to those of the networks as in `policy/continuous/ddpg.py`:

* `q_value`: the mean of Q(s, a). `td_error`: the mean of |y - Q(s, a)|.
* `conservative_gap`: the mean of gap_c. It contains log(3 num_actions), because it sums over actions without averaging.
* `log_prob`: the mean of log pi(a | s), an estimate of minus the policy's entropy.
* `alpha`: the weight of the entropy, if it is learned. `lagrange`: alpha', if it is learned.

Deviation from the paper: the actor does not imitate the data in the first iterations, as it does in the authors' code.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.policy.common_keys import (
    DATASET_KEYS,
    NORMAL_KEYS,
    NSTEP_KEYS,
    SOFT_TARGET_KEYS,
    TWIN_CRITIC_KEYS,
    WIDE_HEAD_KEYS,
)
from ding_lite.policy.continuous.sac import SACPolicy
from ding_lite.rl_utils.common import bootstrapped, sum_of_means
from ding_lite.rl_utils.q_continuous import conservative_gap, squashed_sample
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.torch_utils.optimizer import Coefficient
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_map

LARGEST_LAGRANGE = 1e6


@POLICY_REGISTRY.register("cql")
class CQLPolicy(SACPolicy):
    """CQL: SAC with another critic loss, learned from a data set."""

    key_groups = (DATASET_KEYS, NSTEP_KEYS, SOFT_TARGET_KEYS, NORMAL_KEYS, TWIN_CRITIC_KEYS, WIDE_HEAD_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="cql",
        learn=dict(
            learning_rate_q=Key(3e-4, "learning rate of the critics' optimizer and that of alpha'", low=0, high=10**6),
            num_actions=Key(10, "sampled actions of each kind per state, for the conservative term", low=1),
            min_q_weight=Key(1.0, "weight of the conservative term", low=0),
            with_q_entropy=Key(False, "include the policy's entropy in the target of the critics"),
            with_lagrange=Key(False, "learn a factor of the conservative term; see lagrange_thresh"),
            lagrange_thresh=Key(-1.0, "target of min_q_weight times the gap, above 0; used by with_lagrange only"),
        ),
    )
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "dataset"
    small_at_first = ("actor", "critic")
    logged_figures = (*SACPolicy.logged_figures, "conservative_gap", "lagrange")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        learn = cfg.policy.learn
        if learn.with_lagrange and learn.lagrange_thresh <= 0:
            raise ConfigError(
                f"policy.learn.with_lagrange=True needs a lagrange_thresh above 0, got {learn.lagrange_thresh}: set it."
            )

    def _init_learn(self) -> None:
        super()._init_learn()
        self._lagrange = Coefficient(1.0).to(self._device, self._dtype)
        if self._cfg.learn.with_lagrange:
            self._add_optimizer("lagrange", self._lagrange, self._cfg.learn.learning_rate_q)

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        action_BD = batch["action"].reshape(len(batch["action"]), -1).to(self._dtype)
        like_KBD = action_BD.expand(self._cfg.learn.num_actions, *action_BD.shape)
        normal = {name: torch.randn_like(like_KBD) for name in ("now", "next")}
        return normal | {"actor": torch.randn_like(action_BD), "uniform": torch.rand_like(like_KBD) * 2.0 - 1.0}

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_critic and detached figures, for a batch as `_prepare` returns it."""
        learn, noise = self._cfg.learn, batch["noise"]
        obs = tree_map(lambda *leaves: torch.cat(leaves), batch["obs"], batch["next_obs"])
        with torch.no_grad():
            logit = self._run(self._model.actor, obs)
            noise_KXD = torch.cat([noise["now"], noise["next"]], dim=1)  # X = 2 B: states, then next states
            action_KXD, logp_KX = squashed_sample(logit, noise_KXD)
            now_KBD, next_KBD = action_KXD.chunk(2, dim=1)
            value_B = self._run(self._target_critic, batch["next_obs"], action=next_KBD[0]).amin(0)
            if learn.with_q_entropy:
                value_B = value_B - self._alpha() * logp_KX[0].chunk(2)[1]
            action = torch.cat([batch["action"].unsqueeze(0), noise["uniform"], now_KBD, next_KBD])
            half = torch.full_like(logp_KX.chunk(2, dim=1)[0], -math.log(2.0) * action.shape[-1])
            log_density = torch.cat([half, *logp_KX.chunk(2, dim=1)])
        q = self._run(self._model.critic, batch["obs"], action=action)  # the data's action is the first
        q_CB = q[:, 0]
        error_CB = bootstrapped(batch, value_B) - q_CB
        gap_C = conservative_gap(q[:, 1:], log_density, q_CB)
        weight = self._lagrange().detach().clamp(max=LARGEST_LAGRANGE) * learn.min_q_weight
        figures = {"q_value": q_CB.detach(), "td_error": error_CB.detach().abs(), "conservative_gap": gap_C.detach()}
        return sum_of_means(error_CB.square()) + weight * gap_C.sum(), figures

    def _lagrange_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_lagrange, and alpha' as a figure, for a batch with `conservative_gap` `[C]`."""
        value = self._lagrange().clamp(max=LARGEST_LAGRANGE)
        excess = self._cfg.learn.min_q_weight * batch["conservative_gap"].mean() - self._cfg.learn.lagrange_thresh
        return -value * excess, {"lagrange": value.detach()}

    def _forward_learn(self, batch: Batch) -> Figures:
        if self._alpha_is_scheduled:
            self._alpha.set(self._cfg.learn.alpha)
        output = self._optimizers["critic"].step(self._critic_loss, batch)
        output |= self._optimizers["actor"].step(self._actor_loss, batch)
        if self._cfg.learn.auto_alpha:
            output |= self._optimizers["alpha"].step(self._alpha_loss, batch | output)
        if self._cfg.learn.with_lagrange:
            output |= self._optimizers["lagrange"].step(self._lagrange_loss, output)
        self._alpha.bound()
        self._update_targets()
        return output

    def _state_dict_learn(self) -> dict[str, Any]:
        return super()._state_dict_learn() | {"lagrange": self._lagrange.learned.detach()}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        if "optimizer" in state:
            self._lagrange.learned.data.copy_(state["lagrange"])

"""Conservative Q-learning for discrete actions (CQL, Kumar et al. 2020, arXiv:2006.04779) on quantiles of the return.

Values of actions that are not in the data are unreliable, and a maximum over actions selects the overestimated ones.
CQL therefore adds a term to the loss that lowers Q for other actions and raises it for the data's action (CQL(H), eq. 4
of the paper):

    L = L_td + min_q_weight mean(log sum_a' exp Q(s, a') - Q(s, a))

L_td is the quantile regression loss of QR-DQN (Dabney et al. 2018, arXiv:1710.10044), and Q the mean of the quantiles.

Logged figures:

* `total_loss`: L. `td_loss`: L_td. `min_q_loss`: the mean in the second term, without its weight.
* `q_value`: the mean of Q over the batch and all actions.
* `grad_norm`: the norm of the averaged gradient before clipping. `learning_rate`.

Deviations from the paper: double Q-learning (van Hasselt et al. 2016, arXiv:1509.06461) chooses the next action, and
n-step returns are possible.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from easydict import EasyDict
from torch import Tensor
from torch.nn import functional

from ding_lite.model.masks import average_allowed
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import DATASET_KEYS, LEARNING_RATE_KEYS, TARGET_KEYS
from ding_lite.rl_utils.common import bootstrapped
from ding_lite.rl_utils.quantile import quantile_loss
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError


@POLICY_REGISTRY.register("discrete_cql")
class DiscreteCQLPolicy(Policy):
    """CQL(H) on QR-DQN. Override `_loss` to change the objective."""

    key_groups = (DATASET_KEYS, LEARNING_RATE_KEYS, TARGET_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="discrete_cql",
        discount_factor=0.97,
        nstep=Key(1, "env steps whose rewards are summed before the bootstrap", low=1),
        learn=dict(
            min_q_weight=Key(1.0, "weight of the conservative term; 0 is QR-DQN", low=0),
            kappa=Key(1.0, "error up to which the quantile loss is quadratic; 0: nowhere", low=0),
        ),
    )
    model_type = "qrdqn"
    learns_from = "dataset"
    action_spaces = (gymnasium.spaces.Discrete,)
    logged_figures = ("td_loss", "min_q_loss", "q_value")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        if cfg.policy.model.get("noise"):
            raise ConfigError(
                "policy.model.noise: a policy that learns from a data set does not explore: leave it out."
            )

    def _init_learn(self) -> None:
        super()._init_learn()
        self._target_model = self._add_target("model")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures; see `DQNPolicy._loss` for the batch."""
        output = self._run(self._model, batch["obs"])
        with torch.no_grad():
            target_q_BAK = self._run(self._target_model, batch["next_obs"])["q"]
            next_action_B = self._run(self._model, batch["next_obs"])["logit"].argmax(-1)
        q_BAK = output["q"]
        row_B = torch.arange(len(next_action_B), device=next_action_B.device)
        target_BK = bootstrapped(batch, target_q_BAK[row_B, next_action_B].t()).t()
        theta_BK = q_BAK[row_B, batch["action"]]
        td_loss = quantile_loss(theta_BK, target_BK, output["tau"][..., 0], self._cfg.learn.kappa).mean()
        q_BA = output["logit"]  # the means of the quantiles
        min_q_loss = functional.cross_entropy(q_BA, batch["action"])  # log sum_a exp Q(s, a) - Q(s, a of the data)
        loss = td_loss + self._cfg.learn.min_q_weight * min_q_loss
        figures = {"td_loss": td_loss.detach(), "min_q_loss": min_q_loss.detach(), "q_value": q_BA.detach()}
        return loss, average_allowed(figures, batch["obs"])

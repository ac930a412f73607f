"""DQN on categorical distributions of returns, C51 (Bellemare et al. 2017, arXiv:1707.06887).

For every action, the network predicts the probabilities p_i of K returns z_i, the atoms, equally spaced from
`model.v_min` to `model.v_max`. Their mean is the action's value Q. The loss is the mean over the batch of

    -sum_i m_i log p_i(s_t, a_t),

the cross entropy with the target m: the distribution of R + g^n z_j with the probabilities p'_j(s_{t+n}, a*) of the
target network, projected onto the atoms. R is the sum of n rewards, and a* is chosen as in `dqn.py`.

Exploration, replay, target network and options are those of DQN. The priority of a sample is the
Kullback-Leibler divergence of m and p, its loss without the entropy of m.

Shapes: B samples in a batch, A actions, K atoms.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.model.distributional import check_support
from ding_lite.policy.base import Policy
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.categorical import kl_to_target, project_target
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError

SUPPORT_KEYS: dict[str, Any] = dict(
    v_min=Key(-10.0, "the smallest return that the distribution can express"),
    v_max=Key(10.0, "the largest return that the distribution can express"),
    n_atom=Key(51, "number of returns from v_min to v_max that the distribution can express"),
)
SUPPORT_ALARM = (0.2, "returns leave the range of the atoms: widen policy.model.v_min and policy.model.v_max")


def read_support(model_cfg: EasyDict, model: nn.Module | None = None) -> tuple[float, float]:
    """Return the smallest and the largest atom that a compiled `cfg.policy.model` configures, or the default ones.

    A model that the user passes may have the same values as attributes; others are an error.
    """
    values = {key: model_cfg.get(key, declared.default) for key, declared in SUPPORT_KEYS.items()}
    check_support(**values)
    for key, value in values.items():
        own = getattr(model, key, value)
        if own != value:
            raise ConfigError(
                f"policy.model.{key}={value}, but the model has {key}={own}: set policy.model.{key}={own}."
            )
    return values["v_min"], values["v_max"]


class CategoricalPolicy(Policy):
    """The loss of the module's docstring, for classes that have `DQNPolicy` as their second base class."""

    _next_outputs: Any
    alarms: ClassVar[dict[str, tuple[float, str]]] = {"clipped_share": SUPPORT_ALARM}
    logged_figures = (*DQNPolicy.logged_figures, "clipped_share")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        if cfg.policy.model.get("distributional", True):  # a key of Rainbow
            read_support(cfg.policy.model)

    def _init_learn(self) -> None:
        super()._init_learn()
        model = self._cfg.model
        self._support = read_support(model, self._model) if model.get("distributional", True) else None

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures. The networks' outputs are those of `C51DQN`.

        `log_distribution` may be left out, but a probability that was rounded to 0 then has no gradient.
        """
        if self._support is None:
            return super()._loss(batch)
        online = self._run(self._model, batch["obs"], layer_noise=batch["noise"].get("online"))
        target, next_action_B = self._next_outputs(batch)
        row_B, (v_min, v_max) = torch.arange(len(next_action_B), device=next_action_B.device), self._support
        if "log_distribution" in online:
            logp_BK = online["log_distribution"][row_B, batch["action"]]
        else:
            p_BK = online["distribution"][row_B, batch["action"]]
            logp_BK = p_BK.clamp_min(torch.finfo(p_BK.dtype).tiny).log()
        with torch.no_grad():
            next_p_BK = target["distribution"][row_B, next_action_B]
            target_BK, clipped_B = project_target(
                next_p_BK, batch["reward"], batch["done"], batch["value_gamma"], v_min=v_min, v_max=v_max
            )
        cross_entropy_B = -(target_BK * logp_BK).sum(-1)
        loss = weighted_mean(cross_entropy_B, batch.get("weight"))
        priority_B = kl_to_target(cross_entropy_B, target_BK)
        return loss, {"priority": priority_B, "q_value": online["logit"].detach(), "clipped_share": clipped_B}


@POLICY_REGISTRY.register("c51")
class C51Policy(CategoricalPolicy, DQNPolicy):
    """C51. Its model returns what `C51DQN` returns."""

    config: ClassVar[dict[str, Any]] = dict(
        type="c51",
        discount_factor=0.97,
        nstep=1,
        model=SUPPORT_KEYS,
    )
    model_type = "c51dqn"

"""The penalty on a divergence in PPO's loss: its weight, when it ends a collect's updates, and a pretrained policy.

The divergence is KL(pi_old || pi_new), in closed form (Schulman et al. 2017, arXiv:1707.06347, eq. 8), or with
`learn.pretrained_model_path` an estimate of KL(pi_new || pi_pretrained).
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy.schedules import Schedules
from ding_lite.policy.sequences import find_core
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import kl_divergence
from ding_lite.rl_utils.policy_gradient import pretrained_kl
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.key import Key
from ding_lite.utils.ranks.collectives import allreduce_data
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.schedule import Scheduled

KL_KEYS: dict[str, Any] = dict(
    kl_beta=Key(0.0, "weight of KL(pi_old || pi_new), or KL(pi_new || pi_pretrained)", low=0),
    kl_type=Key("k1", "estimate of the second KL: log-ratio, its square, k3", choices=("k1", "k2", "k3")),
    pretrained_model_path=Key(None, "checkpoint of pi_pretrained, of the same model; None: none", type=str),
)
# Keys about the divergence of all updates after a collect.
TARGET_KL_KEYS: dict[str, Any] = dict(
    target_kl=Key(None, "desired mean of KL(pi_old || pi_new), for the three keys that follow", type=float),
    kl_early_stop=Key(False, "end the updates of a collect when the mean KL exceeds 1.5 target_kl"),
    kl_adaptive=Key(False, "after a collect, double or halve kl_beta if KL is 1.5 times off target_kl"),
    kl_learning_rate=Key(False, "after an update, change the learning rate by 1.5 if KL is twice off target_kl"),
)


class KLPenalty:
    """The weight of the divergence in the loss, and what the divergences of a collect's updates decide."""

    def __init__(self, learn: EasyDict, schedules: Schedules) -> None:
        self._learn, self._scheduled = learn, isinstance(schedules.follower("learn.kl_beta"), Scheduled)
        self._adapted: float | None = None  # the weight after changes by `kl_adaptive`
        self._seen: list[Tensor] = []  # KL(pi_old || pi_new) of the updates since the last collect, with `target_kl`

    @property
    def beta(self) -> float:
        """The weight of the divergence in the loss."""
        return self._learn.kl_beta if self._adapted is None else self._adapted

    def divergence(self, batch: Batch, logit: Any) -> tuple[Tensor | None, dict[str, Tensor]]:
        """Return the divergence of a batch, a scalar, None if there is no penalty; and the figures `kl`, `kl_div`."""
        weight_B, pretrained = batch.get("weight"), batch.get("logit_pretrained")
        figures, beta = {}, self._learn.kl_beta
        # What changes, or may differ where torch traces, is a tensor, and has no truth there.
        penalizes = self._scheduled or self._adapted is not None or isinstance(beta, Tensor) or beta != 0
        if (penalizes and pretrained is None) or self._learn.get("target_kl") is not None:
            figures["kl"] = weighted_mean(kl_divergence(batch["logit"], logit), weight_B)
        if pretrained is not None:
            figures["kl_div"] = pretrained_kl(logit, pretrained, batch["action"], self._learn.kl_type, weight_B)
        return figures.get("kl" if pretrained is None else "kl_div"), figures

    def begin(self) -> None:
        """Forget the updates of the last collect."""
        self._seen.clear()

    def add(self, figures: Figures) -> None:
        """Take the figures of an update, for `ends_updates` and `adapt`."""
        if "kl" in figures and self._learn.get("target_kl") is not None:
            self._seen.append(figures["kl"])

    def ends_updates(self) -> bool:
        """Return whether the last update ends those of a collect; with `kl_early_stop`, a collective call."""
        return self._learn.kl_early_stop and self._joined(self._seen[-1:]) > 1.5 * self._learn.target_kl

    def adapt(self) -> None:
        """Adapt the weight to the KL of the last epoch's updates (Schulman et al. 2017, below eq. 8)."""
        if not self._learn.kl_adaptive:
            return
        last_epoch = self._seen[-max(1, len(self._seen) // self._learn.epoch_per_collect) :]
        kl, target = self._joined(last_epoch), self._learn.target_kl
        self._adapted = self.beta * (2.0 if kl > 1.5 * target else 0.5 if kl < target / 1.5 else 1.0)

    def _joined(self, kl: list[Tensor]) -> float:
        """Return the mean of KLs over updates and ranks; one collective."""
        return float(allreduce_data(torch.stack(kl).mean(), op="mean"))

    def load(self, beta: float) -> None:
        """Restore the weight that a checkpoint has; without `kl_adaptive`, that of the config counts."""
        self._adapted = beta if self._learn.get("kl_adaptive") else None


def load_pretrained(model: nn.Module, path: str) -> nn.Module:
    """Return a copy of a model, with the parameters of a checkpoint and without gradients."""
    network, state = copy.deepcopy(model).requires_grad_(False), load_checkpoint(path)
    try:
        network.load_state_dict(state["policy"]["model"])
    except (KeyError, TypeError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ConfigError(
            f"policy.learn.pretrained_model_path: '{path}' does not have this policy's model: {reason}"
        ) from error
    if "obs.mean" in state["policy"].get("normalizer", {}):
        raise ConfigError(
            f"policy.learn.pretrained_model_path: the policy of '{path}' learned from normalised observations, which "
            "this policy does not give it: choose the checkpoint of a run with env.norm_obs=False."
        )
    return network


def check_kl_keys(cfg: EasyDict) -> None:
    """Check `target_kl`, `kl_beta`, `pretrained_model_path` and related keys of a compiled config."""
    policy, learn, path = cfg.policy, cfg.policy.learn, "policy.learn.pretrained_model_path"
    uses_target = any(learn.get(key) for key in ("kl_early_stop", "kl_adaptive", "kl_learning_rate"))
    if (learn.get("target_kl") is not None) != uses_target:
        raise ConfigError(
            "policy.learn.target_kl belongs to kl_early_stop=True, kl_adaptive=True or kl_learning_rate=True: set both."
        )
    scheduled = isinstance(learn.kl_beta, Scheduled)
    if learn.get("kl_adaptive") and scheduled:
        raise ConfigError(
            "policy.learn.kl_adaptive=True contradicts the schedule of policy.learn.kl_beta: set only one."
        )
    if learn.get("kl_adaptive") and learn.kl_beta <= 0:
        raise ConfigError("policy.learn.kl_adaptive=True adapts kl_beta: set policy.learn.kl_beta above 0.")
    if learn.pretrained_model_path is None:
        return
    if learn.kl_beta <= 0 and not scheduled:  # a schedule may begin or end with 0
        raise ConfigError(f"{path} has no effect without a weight: set policy.learn.kl_beta above 0.")
    if learn.get("kl_adaptive"):
        raise ConfigError(
            f"{path} contradicts kl_adaptive=True, which adapts kl_beta to KL(pi_old || pi_new): drop one."
        )
    if key := find_core(policy.model):
        raise ConfigError(f"{path} is not possible with policy.model.{key}: leave one out.")
    if cfg.env.norm_obs.use_norm:
        raise ConfigError(
            f"{path} is not possible with env.norm_obs=True: the pretrained policy would see observations that are "
            "normalised by other statistics than those it learned with. Leave one out."
        )

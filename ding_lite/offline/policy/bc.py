"""Behaviour cloning (Pomerleau 1991, doi:10.1162/neco.1991.3.1.88): supervised learning of an expert's actions.

Logged figures:

* `total_loss`: the loss that is minimised.
* `accuracy`, discrete actions only: the share of samples whose most likely action is the expert's; of several choices,
  the share of the expert's.
* `action_error`, continuous actions only: the mean absolute difference from the expert's action, over samples and
  dimensions.
* `grad_norm`: the norm of the averaged gradient before clipping. `learning_rate`.

Deviations from the paper: Adam replaces gradient descent; for discrete actions, cross entropy replaces the squared
error.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import gymnasium
import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.masks import find_mask
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import IMITATION_KEYS, LEARNING_RATE_KEYS
from ding_lite.rl_utils.distribution import Logit, log_prob, mode
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError

REGRESSION_LOSSES = {"l1_loss": functional.l1_loss, "mse_loss": functional.mse_loss}
LABEL_SMOOTHING = 0.1  # share of the target probability that is spread evenly over all allowed actions


@POLICY_REGISTRY.register("bc")
class BCPolicy(Policy):
    """Behaviour cloning of discrete, multi-discrete or continuous actions. Override `_loss` to change the objective."""

    key_groups = (IMITATION_KEYS, LEARNING_RATE_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="bc",
        continuous=Key(None, "whether actions are continuous; None: determined by the environment", type=bool),
        loss_type=Key(
            "l1_loss",
            "loss of continuous actions: 'l1_loss' learns their median, 'mse_loss' their mean",
            choices=("l1_loss", "mse_loss"),
        ),
        learn=dict(
            ce_label_smooth=Key(
                False, "discrete actions: spread a tenth of the target probability over all allowed actions"
            ),
        ),
    )
    model_type = "bc"
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "dataset"
    action_spaces = (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete, gymnasium.spaces.Box)
    required_columns: ClassVar[tuple[str, ...]] = ("obs", "action")
    logged_figures: ClassVar[tuple[str, ...]] = ("accuracy", "action_error")

    def _create_model(self) -> nn.Module:
        space = self._cfg.model.get("action_space", "discrete")
        if self._cfg.continuous not in (None, "discrete" not in space):
            raise ConfigError(
                f"policy.continuous={self._cfg.continuous}, but the environment's actions are {space}: leave it out."
            )
        return super()._create_model()

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss, and detached figures, for `obs` `[B, ...]` and `action` `[B]`, or `[B, D]` of several.

        The loss is the cross entropy -log pi(a | s) if the model returns `logit`, for several choices the sum of
        theirs. Otherwise it is the mean of |a - mu(s)|, or of its square.

        Raises:
            ValueError: the shape of the batch's actions is not that of the model's.
        """
        return self._imitation(self._run(self._model, batch["obs"]), batch["obs"], batch["action"])

    def _imitation(self, output: Output, obs: Any, action: Tensor) -> tuple[Tensor, Figures]:
        """Return the loss of what a model has returned for observations, see `_loss`, and detached figures."""
        if "logit" in output:
            smoothing = LABEL_SMOOTHING if self._cfg.learn.ce_label_smooth else 0.0
            loss = _cross_entropy(output["logit"], action, smoothing, find_mask(obs) is not None)
            likely: Any = mode(output["logit"])
            return loss, {"accuracy": (likely == action).to(loss.dtype)}
        mu, action = output["action"], self._to_device(action)
        if mu.shape != action.shape:  # [B, 1] and [B] would be broadcast to B x B pairs
            raise ValueError(f"action must have the model's shape {tuple(mu.shape)}, got {tuple(action.shape)}")
        loss = REGRESSION_LOSSES[self._cfg.loss_type](mu, action)
        return loss, {"action_error": (mu.detach() - action).abs()}


def _cross_entropy(logit: Logit, action: Tensor, smoothing: float, masked: bool) -> Tensor:
    if isinstance(logit, Tensor) and not masked:
        return functional.cross_entropy(logit, action, label_smoothing=smoothing)
    loss = -log_prob(logit, action).mean()
    if not smoothing:
        return loss
    logit_BDA = logit[:, None] if isinstance(logit, Tensor) else logit["branches"]
    logp_BDA = logit_BDA.log_softmax(-1)
    lacking_BDA = logp_BDA.isneginf()
    spread_BD = logp_BDA.masked_fill(lacking_BDA, 0.0).sum(-1) / (~lacking_BDA).sum(-1)
    return torch.lerp(loss, -spread_BD.sum(-1).mean(), smoothing)

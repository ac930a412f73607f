"""Advantage actor-critic (A2C), the synchronous form of A3C (Mnih et al. 2016, arXiv:1602.01783).

The policy learns from each collect in one pass of minibatches, with generalised advantages A and returns R:

    L = -mean A log pi(a | s) + value_weight mean (R - V(s))^2 - entropy_weight mean H(pi(. | s))

Shapes: T steps, N environments, M = T N samples, B samples of a minibatch.
`rl_utils/distribution.py` describes logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import LEARNING_RATE_KEYS, ROLLOUT_KEYS
from ding_lite.policy.policy_gradient.actor_critic import (
    ADVANTAGE_KEYS,
    DISTRIBUTIONS,
    LOSS_KEYS,
    estimate_advantages,
    estimate_values,
    flatten_rows,
    init_parameters,
    normalize_advantages,
)
from ding_lite.policy.sequences import check_core
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import log_prob_entropy, sample
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.torch_utils.minibatch import explained_variance, minibatches, rank_sizes
from ding_lite.utils.key import Groups
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("a2c")
class A2CPolicy(Policy):
    """A2C for discrete, multi-discrete, continuous or hybrid actions. Override `_loss` to change the objective."""

    key_groups: ClassVar[Groups] = (ROLLOUT_KEYS, LEARNING_RATE_KEYS, ADVANTAGE_KEYS, LOSS_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="a2c",
        discount_factor=0.9,
        learn=dict(
            adv_norm=False,
            grad_clip_type="clip_norm",
        ),
        collect=dict(n_sample=80),
    )
    model_type = "vac"
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "collect"
    allows_lag = False
    action_spaces = DISTRIBUTIONS
    actor_mode = "compute_actor"
    stored_outputs = ("logit", "value")
    logged_figures: ClassVar[tuple[str, ...]] = ("policy_loss", "value_loss", "entropy", "explained_variance")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        check_core(cfg.policy, recurrent=False)

    def _create_model(self) -> nn.Module:
        return init_parameters(super()._create_model(), self._cfg)

    def _batches(self, samples: Batch) -> Iterator[Batch]:
        block = self._to_device(samples)
        value_TN, next_value_TN = estimate_values(self, block)
        adv_TN, return_TN = estimate_advantages(self, block, value_TN, next_value_TN)
        self._figures["explained_variance"] = explained_variance(value_TN, return_TN)
        columns = {key: block[key] for key in ("obs", "action", "active") if key in block}
        samples_M = flatten_rows(columns | {"adv": adv_TN, "return_": return_TN})
        batches = minibatches(samples_M, self._cfg.learn.batch_size, rank_sizes(len(samples_M["adv"])))
        yield from normalize_advantages(batches) if self._cfg.learn.adv_norm else batches

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        output = self._run(self._model, batch["obs"], mode="compute_actor_critic")
        weight_B = batch.get("weight")
        logp_B, entropy_B = log_prob_entropy(output["logit"], batch["action"])
        policy_loss = -weighted_mean(logp_B * batch["adv"], weight_B)
        value_loss = weighted_mean((batch["return_"] - output["value"]).square(), weight_B)
        entropy = weighted_mean(entropy_B, weight_B)
        loss = policy_loss + self._cfg.learn.value_weight * value_loss - self._cfg.learn.entropy_weight * entropy
        figures = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        return loss, {key: value.detach() for key, value in figures.items()}

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = self._run(self._model, obs, mode="compute_actor_critic")
        return output | {"action": sample(output["logit"])}

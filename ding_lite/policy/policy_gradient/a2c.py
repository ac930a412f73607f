"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), synchronous: one pass over each collect.

Logged: `policy_loss`, `value_loss`, `entropy`, and `grad_norm` before clipping. Unlike the paper: generalised advantage
estimation (Schulman et al. 2016, arXiv:1506.02438) for n-step returns, Adam for RMSProp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from torch import Tensor

from ding_lite.policy.policy_gradient.actor_critic import ActorCriticPolicy, flatten_rows
from ding_lite.rl_utils.a2c import a2c_data, a2c_error
from ding_lite.torch_utils.minibatch import rank_sizes
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("a2c")
class A2CPolicy(ActorCriticPolicy):
    """A2C for discrete, continuous and hybrid actions. Override `_loss` to change what is minimised."""

    config: ClassVar[dict[str, Any]] = dict(
        type="a2c",  # (str) name in the policy registry
        discount_factor=0.9,  # (float) gamma, per env step
        learn=dict(
            adv_norm=False,  # (bool) advantages of each minibatch, of all ranks together, to mean 0 and deviation 1
            grad_clip_type="clip_norm",  # (str, None) 'clip_norm' or 'clip_value', applied to the averaged gradient
        ),
        collect=dict(
            gae_lambda=0.95,  # (float) lambda of generalised advantage estimation
        ),
    )

    def _get_batches(self, samples: dict[str, Any]) -> Iterator[dict[str, Any]]:
        block = self._to_device(samples)
        adv_TN, return_TN = self._advantages(block, *self._values(block))
        columns = {"obs": block["obs"], "action": block["action"], "adv": adv_TN, "return_": return_TN}
        samples_M = flatten_rows(columns)
        yield from self._minibatches(samples_M, rank_sizes(len(samples_M["adv"])))

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and detached tensors to log. Pure in model and batch.

        Args:
            batch: `obs, action`, `adv` and `return_` `[B]`, and `weight` `[B]` where ranks differ in B.
        """
        output = self._run_model(batch["obs"], "compute_actor_critic")
        data = a2c_data(
            output["logit"], batch["action"], output["value"], batch["adv"], batch["return_"], batch.get("weight")
        )
        policy_loss, value_loss, entropy = a2c_error(data)
        loss = policy_loss + self._cfg.learn.value_weight * value_loss - self._cfg.learn.entropy_weight * entropy
        figures = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        return loss, {key: value.detach() for key, value in figures.items()}

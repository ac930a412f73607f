"""Policy gradient, REINFORCE (Williams 1992, doi:10.1007/BF00992696), on whole episodes.

Logged: `policy_loss`, `entropy`, `return`, the mean of the discounted returns-to-go, `grad_norm` before clipping. An
episode that a time limit truncates counts as it is: there is no value to bootstrap from.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor

from ding_lite.policy.base import Policy
from ding_lite.rl_utils.distribution import mode, sample
from ding_lite.rl_utils.episodes import first_episodes
from ding_lite.rl_utils.gae import gae, gae_data
from ding_lite.rl_utils.pg import pg_data, pg_error
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map


@POLICY_REGISTRY.register("pg")
class PGPolicy(Policy):
    """REINFORCE for discrete, continuous and hybrid actions. Override `_loss` to change what is minimised."""

    config: ClassVar[dict[str, Any]] = dict(
        type="pg",  # (str) name in the policy registry
        on_policy=True,  # (bool) each collect is learned from at once, then thrown away; told by the policy, not set
        deterministic_eval=True,  # (bool) evaluate the most likely action, not a sampled one
        learn=dict(
            entropy_weight=0.01,  # (float) weight of the entropy bonus
            grad_clip_type="clip_norm",  # (str, None) 'clip_norm' or 'clip_value', applied to the averaged gradient
            grad_clip_value=5.0,  # (float) the bound
        ),
        collect=dict(
            n_episode=8,  # (int) whole episodes per rank and collect, a multiple of collector_env_num
        ),
    )
    config_without: ClassVar[tuple[str, ...]] = ("collect.n_sample",)
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Discrete, gymnasium.spaces.Box, gymnasium.spaces.Dict)

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "pg", ["ding_lite.model"]

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "policy_loss", "entropy", "return"]

    def _logit(self, obs: Any) -> Any:
        with self._autocast():
            logit = self._model(obs)["logit"]
        return logit if self._cfg.precision == "float32" else tree_map(Tensor.float, logit)

    def _get_train_sample(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return `obs, action` and `return_`, discounted returns-to-go, of the episodes that count, `[M, ...]`."""
        nothing = torch.zeros_like(block["reward"])
        data = gae_data(nothing, nothing, block["reward"], block["done"], block["traj_flag"])
        returns = gae(data, self._cfg.discount_factor, lambda_=1.0)  # with values of zero these are the returns
        columns = {"obs": block["obs"], "action": block["action"], "return_": returns}
        counted_TN = first_episodes(block["final_index"], *block["reward"].shape)
        return tree_map(lambda leaf: leaf[counted_TN], columns)

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and detached tensors to log. Pure in model and batch.

        Args:
            batch: `obs, action`, `return_` `[B]`, and `weight` `[B]` where ranks differ in B.
        """
        logit = self._logit(batch["obs"])
        policy_loss, entropy = pg_error(pg_data(logit, batch["action"], batch["return_"], batch.get("weight")))
        figures = {"policy_loss": policy_loss.detach(), "entropy": entropy.detach(), "return": batch["return_"]}
        return policy_loss - self._cfg.learn.entropy_weight * entropy, figures

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        return {"action": sample(self._logit(self._to_device(obs)))}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> dict[str, Any]:
        logit = self._logit(self._to_device(obs))
        return {"logit": logit, "action": mode(logit) if self._cfg.deterministic_eval else sample(logit)}

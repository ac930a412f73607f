"""What actor-critic policies share: acting by a stochastic policy, advantages, minibatches.

Shapes: T steps, N environments, M samples (T N), B samples of a minibatch. `logit` as
`rl_utils.distribution` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium
import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.policy.base import Policy
from ding_lite.rl_utils.distribution import mode, sample
from ding_lite.rl_utils.gae import gae, gae_data
from ding_lite.torch_utils.minibatch import minibatches, normalize_parts
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_map


class ActorCriticPolicy(Policy):
    """Base of policies whose model returns `logit` and `value`; on-policy unless a subclass says otherwise."""

    config: ClassVar[dict[str, Any]] = dict(
        on_policy=True,  # (bool) each collect is learned from at once, then thrown away; told by the policy, not set
        learn=dict(
            value_weight=0.5,  # (float) weight of the value loss; the policy's is 1
            entropy_weight=0.01,  # (float) weight of the entropy bonus
        ),
    )
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Discrete, gymnasium.spaces.Box, gymnasium.spaces.Dict)

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        n_sample, batch_size = cfg.policy.collect.n_sample, cfg.policy.learn.batch_size
        if not cfg.policy.on_policy:
            return
        if n_sample is None:
            raise ConfigError(
                "policy.collect.n_sample is not set: say how many env steps each rank plays before it learns, a "
                f"multiple of env.collector_env_num={cfg.env.collector_env_num}."
            )
        if batch_size > n_sample:
            raise ConfigError(
                f"policy.learn.batch_size={batch_size} is more than policy.collect.n_sample={n_sample}, all that there "
                "is to learn from after a collect: lower the one or raise the other."
            )

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "vac", ["ding_lite.model"]

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "policy_loss", "value_loss", "entropy"]

    def _run_model(self, obs: Any, mode: str) -> dict[str, Any]:
        """Return the model's `logit` and/or `value` for observations, in full precision."""
        with self._autocast():
            output = self._model(self._to_device(obs), mode=mode)
        return output if self._cfg.precision == "float32" else tree_map(Tensor.float, output)

    # From what was collected to minibatches.

    def _minibatches(self, samples_M: dict[str, Any], sizes: list[int]) -> Iterator[dict[str, Any]]:
        """Yield minibatches of a pass in random order; `sizes` are M of all ranks."""
        batches = minibatches(samples_M, self._cfg.learn.batch_size, sizes)
        if self._cfg.learn.adv_norm:
            for batch, adv_B in zip(batches, normalize_parts([batch["adv"] for batch in batches]), strict=True):
                batch["adv"] = adv_B
        yield from batches

    def _advantages(self, block: dict[str, Any], value_TN: Tensor, next_value_TN: Tensor) -> tuple[Tensor, Tensor]:
        """Return advantages and the returns that values are to predict, `[T, N]`."""
        data = gae_data(value_TN, next_value_TN, block["reward"], block["done"], block["traj_flag"])
        adv_TN = gae(data, self._cfg.discount_factor, self._cfg.collect.gae_lambda)
        return adv_TN, adv_TN + value_TN

    @torch.no_grad()
    def _values(self, block: dict[str, Any], recompute: bool = False) -> tuple[Tensor, Tensor]:
        """Return V(s_t) and V(s_{t+1}) `[T, N]`, the latter of the true final observation where an episode ended."""
        value_TN = block["value"]
        if recompute:
            value_M = self._run_model(flatten_rows(block["obs"]), "compute_critic")["value"]
            value_TN = value_M.view_as(value_TN)
        obs, final = block["last_obs"], "final_index" in block
        if final:
            obs = tree_map(lambda *parts: torch.cat(parts), obs, block["final_obs"])
        value_X = self._run_model(obs, "compute_critic")["value"].to(value_TN.dtype)
        num_envs = value_TN.shape[1]
        next_value_TN = torch.cat([value_TN[1:], value_X[None, :num_envs]])
        if final:
            next_value_TN.view(-1)[block["final_index"]] = value_X[num_envs:]
        return value_TN, next_value_TN

    # Acting.

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        output = self._run_model(obs, "compute_actor_critic")
        return output | {"action": sample(output["logit"])}

    def _process_transition(self, obs: Any, policy_output: dict[str, Any], timestep: SimpleNamespace) -> dict[str, Any]:
        own = {"logit": policy_output["logit"], "value": policy_output["value"]}
        return super()._process_transition(obs, policy_output, timestep) | own

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> dict[str, Any]:
        output = self._run_model(obs, "compute_actor")
        return output | {"action": mode(output["logit"])}


def flatten_rows(data: Any) -> Any:
    """Return nested dicts of `[T, N, ...]` as `[T N, ...]`."""
    return tree_map(lambda leaf: leaf.flatten(0, 1), data)

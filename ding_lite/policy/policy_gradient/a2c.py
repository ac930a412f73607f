"""Advantage actor-critic (A2C), the synchronous form of A3C (Mnih et al. 2016, arXiv:1602.01783).

The policy learns from each collect in one pass of minibatches.

Logged figures:

* `total_loss`: the loss that is minimised, policy_loss + value_weight value_loss - entropy_weight entropy.
* `policy_loss`, `value_loss`, `entropy`: its parts without their weights. The entropy is in nats.
* `explained_variance`: 1 - Var(R - V) / Var(R) of the collect's returns R and values V; 1 if V predicts R perfectly.
* `grad_norm`: the norm of the averaged gradient before clipping. `learning_rate`.

Deviations from the paper: all ranks and environments step together; generalised advantage estimation (Schulman et al.
2016, arXiv:1506.02438) replaces n-step returns; Adam replaces RMSProp.

Shapes: T steps, N environments, M = T N samples, B samples of a minibatch, K ended episodes.
`rl_utils/distribution.py` describes logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, Literal

import gymnasium
import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy.base import Policy
from ding_lite.policy.sequences import find_core
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import log_prob_entropy, sample
from ding_lite.rl_utils.policy_gradient import gae, gae_data
from ding_lite.torch_utils.minibatch import explained_variance, minibatches, normalize_parts, rank_sizes
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_map

# Keys of all policies whose model returns `logit` and `value`, and the spaces of their actions.
LOSS_KEYS: dict[str, Any] = dict(
    value_weight=Key(0.5, "weight of the value loss; that of the policy loss is 1"),
    entropy_weight=Key(0.01, "weight of the entropy bonus"),
    ppo_param_init=Key(False, "initialise weights orthogonally, small ones in the policy's last layer"),
)
DISTRIBUTIONS: tuple[type, ...] = (
    *(gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete, gymnasium.spaces.Box, gymnasium.spaces.Dict),
)


@POLICY_REGISTRY.register("a2c")
class A2CPolicy(Policy):
    """A2C for discrete, multi-discrete, continuous or hybrid actions. Override `_loss` to change the objective."""

    config: ClassVar[dict[str, Any]] = dict(
        type="a2c",
        discount_factor=0.9,
        learn=dict(
            **LOSS_KEYS,
            adv_norm=Key(False, "normalise each minibatch's advantages, over all ranks, to mean 0 and variance 1"),
            grad_clip_type="clip_norm",
        ),
        collect=dict(
            n_sample=Key(80, "env steps per rank and collect, rounded up to a multiple of collector_env_num", low=1),
            gae_lambda=Key(0.95, "lambda of generalised advantage estimation", low=0, high=1),
        ),
    )
    model_type = "vac"
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "collect"
    allows_lag = False
    action_spaces = DISTRIBUTIONS
    actor_mode = "compute_actor"
    stored_outputs = ("logit", "value")
    transition_with_policy_data = True
    logged_figures: ClassVar[tuple[str, ...]] = ("policy_loss", "value_loss", "entropy", "explained_variance")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        check_core(cfg.policy, recurrent=False)

    def _create_model(self) -> nn.Module:
        return init_parameters(super()._create_model(), self._cfg)

    def _batches(self, samples: dict[str, Any]) -> Iterator[dict[str, Any]]:
        block = self._to_device(samples)
        value_TN, next_value_TN = estimate_values(self, block)
        adv_TN, return_TN = estimate_advantages(self, block, value_TN, next_value_TN)
        self._figures["explained_variance"] = explained_variance(value_TN, return_TN)
        columns = {"obs": block["obs"], "action": block["action"], "adv": adv_TN, "return_": return_TN}
        samples_M = flatten_rows(columns)
        batches = minibatches(samples_M, self._cfg.learn.batch_size, rank_sizes(len(samples_M["adv"])))
        yield from normalize_advantages(batches) if self._cfg.learn.adv_norm else batches

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss, and detached tensors whose means are logged. It depends only on the model and the batch.

        Args:
            batch: `obs`, `action`, `adv` `[B]`, `return_` `[B]`, and `weight` `[B]` if B differs between ranks.
        """
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
    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        output = self._run(self._model, obs, mode="compute_actor_critic")
        return output | {"action": sample(output["logit"])}


def check_core(policy: EasyDict, recurrent: bool) -> None:
    """Check that a model has a recurrent core only if the policy can learn with one."""
    key = find_core(policy.model)
    if key and not (recurrent and policy.model.get("share_encoder", True)):
        what = "share_encoder=False" if recurrent else f"policy '{policy.type}', only with 'ppo'"
        raise ConfigError(f"policy.model.{key}={policy.model[key]} is not possible with {what}: leave one out.")


def init_parameters(model: nn.Module, policy: EasyDict) -> nn.Module:
    """Return a new model, with the parameters that `learn.ppo_param_init` asks for."""
    if policy.learn.ppo_param_init and hasattr(model, "init_parameters"):
        model.init_parameters()  # type: ignore[operator]  # mypy does not see the method that hasattr found
    return model


@torch.no_grad()
def estimate_values(policy: Policy, block: dict[str, Any], recompute: bool = False) -> tuple[Tensor, Tensor]:
    """Return V(s_t) and V(s_{t+1}), both `[T, N]`.

    Where an episode ended, V(s_{t+1}) is the value of its true final observation.

    Args:
        policy: its model returns `value` if called with the mode `compute_critic`.
        block: `obs` and `value`, `last_obs` `[N, ...]`, and `final_obs` `[K, ...]`, `final_index` `[K]` if any
            episode ended.
        recompute: compute V(s_t) with the current model instead of using `value`.
    """
    value_TN = block["value"]
    if recompute:
        value_M = policy._run(policy.model, flatten_rows(block["obs"]), mode="compute_critic")["value"]
        value_TN = value_M.view_as(value_TN)
    run = partial(policy._run, policy.model, mode="compute_critic")
    return value_TN, next_values(block, value_TN, lambda obs: run(obs)["value"])


def next_values(block: dict[str, Any], value_TN: Tensor, run: Callable[[Any], Tensor]) -> Tensor:
    """Return V(s_{t+1}) `[T, N]`; `run` returns the values `[X]` of observations `[X, ...]`, see `estimate_values`."""
    obs, num_envs, final = block["last_obs"], value_TN.shape[1], "final_index" in block
    if final:
        obs = tree_map(lambda *parts: torch.cat(parts), obs, block["final_obs"])
    value_X = run(obs).to(value_TN.dtype)  # N values of the newest observations, then K of the final ones
    next_value_TN = torch.cat([value_TN[1:], value_X[None, :num_envs]])
    if final:
        next_value_TN.view(-1)[block["final_index"]] = value_X[num_envs:]
    return next_value_TN


def estimate_advantages(
    policy: Policy, block: dict[str, Any], value_TN: Tensor, next_value_TN: Tensor
) -> tuple[Tensor, Tensor]:
    """Return advantages, and the returns that the values should predict, both `[T, N]`.

    Args:
        policy: has the keys `discount_factor` and `collect.gae_lambda`.
        block: `reward`, `done`, `traj_flag` `[T, N]`.
        value_TN: V(s_t).
        next_value_TN: V(s_{t+1}), as `estimate_values` returns it.
    """
    cfg = policy.current_config
    data = gae_data(value_TN, next_value_TN, block["reward"], block["done"], block["traj_flag"])
    adv_TN = gae(data, cfg.discount_factor, cfg.collect.gae_lambda)
    return adv_TN, adv_TN + value_TN


def normalize_advantages(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return minibatches, in each of which `adv` has mean 0 and variance 1 over all ranks; one collective."""
    normalized = normalize_parts([batch["adv"] for batch in batches])
    return [batch | {"adv": adv_B} for batch, adv_B in zip(batches, normalized, strict=True)]


def flatten_rows(data: Any) -> Any:
    """Return tensors or nested dicts of shape `[T, N, ...]` reshaped to `[T N, ...]`."""
    return tree_map(lambda leaf: leaf.flatten(0, 1), data)

"""What actor-critics that learn from their collects have in common: keys, spaces, and estimates of advantages.

Shapes: T steps, N environments, M = T N samples, B samples of a minibatch, K ended episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from easydict import EasyDict
from gymnasium import spaces
from torch import Tensor, nn

from ding_lite.policy.base import Policy
from ding_lite.policy.sequences import by_environment, sequence_values
from ding_lite.rl_utils.distribution import sample
from ding_lite.rl_utils.policy_gradient import gae, gae_data
from ding_lite.torch_utils.data import Batch, Block, Output
from ding_lite.torch_utils.minibatch import explained_variance, normalize_parts
from ding_lite.torch_utils.running_stat import RunningMeanStd
from ding_lite.utils.key import Key
from ding_lite.utils.tree import tree_map

# Keys of all policies whose model returns `logit` and `value`, and the spaces of their actions.
LOSS_KEYS: dict[str, Any] = dict(
    learn=dict(
        value_weight=Key(0.5, "weight of the value loss; that of the policy loss is 1"),
        entropy_weight=Key(0.01, "weight of the entropy bonus"),
        ppo_param_init=Key(False, "initialise weights orthogonally, small ones in the policy's last layer"),
    ),
)
ADVANTAGE_KEYS: dict[str, Any] = dict(
    learn=dict(
        adv_norm=Key(True, "normalise each minibatch's advantages, over all ranks, to mean 0 and variance 1"),
    ),
    collect=dict(
        gae_lambda=Key(0.95, "lambda of generalised advantage estimation", low=0, high=1),
    ),
)
if TYPE_CHECKING:
    Mixin = Policy
else:
    Mixin = object
DISTRIBUTIONS: tuple[type, ...] = (spaces.Discrete, spaces.MultiDiscrete, spaces.Box, spaces.Dict)


def init_parameters(model: nn.Module, policy: EasyDict) -> nn.Module:
    """Return a new model, with the parameters that `learn.ppo_param_init` asks for."""
    if policy.learn.ppo_param_init and hasattr(model, "init_parameters"):
        model.init_parameters()  # type: ignore[operator]  # mypy does not see the method that hasattr found
    return model


@torch.no_grad()
def estimate_values(
    policy: Policy, block: Block, units: ValueUnits | None = None, recompute: bool = False
) -> tuple[Tensor, Tensor]:
    """Return V(s_t) and V(s_{t+1}), both `[T, N]`, in units of rewards.

    Where an episode ended, V(s_{t+1}) is the value of its true final observation.

    Args:
        policy: its model returns `value` if called with the mode `compute_critic`.
        block: the rollout block, with `value`.
        units: those of the model's values; None: those of rewards.
        recompute: compute V(s_t) with the current model instead of using `value`.
    """
    value_TN = block["value"]

    def run(obs: Any) -> Tensor:
        with torch.inference_mode():
            value: Tensor = policy._run(policy.model, obs, mode="compute_critic")["value"]
        return value.clone() if units is None else units.denormalize(value)  # a tensor that losses may use

    if recompute:
        value_TN = run(flatten_rows(block["obs"])).view_as(value_TN)
    return value_TN, next_values(block, value_TN, run)


def next_values(block: Block, value_TN: Tensor, run: Callable[[Any], Tensor]) -> Tensor:
    """Return V(s_{t+1}) `[T, N]`; `run` returns the values `[X]` of observations `[X, ...]`, see `estimate_values`."""
    obs, num_envs, final = block["last_obs"], value_TN.shape[1], "final_index" in block
    if final:
        obs = tree_map(lambda *parts: torch.cat(parts), obs, block["final_obs"])
    value_X = run(obs).to(value_TN.dtype)  # N values of the newest observations, then K of the final ones
    next_value_TN = torch.cat([value_TN[1:], value_X[None, :num_envs]])
    if final:
        next_value_TN.view(-1)[block["final_index"]] = value_X[num_envs:]
    return next_value_TN


def estimate_advantages(policy: Policy, block: Block, value_TN: Tensor, next_value_TN: Tensor) -> tuple[Tensor, Tensor]:
    """Return advantages of V(s_t) and V(s_{t+1}), and the returns that the values should predict, all `[T, N]`."""
    cfg = policy.current_config
    data = gae_data(value_TN, next_value_TN, block["reward"], block["done"], block["traj_flag"])
    adv_TN = gae(data, cfg.discount_factor, cfg.collect.gae_lambda)
    return adv_TN, adv_TN + value_TN


class ValueUnits(RunningMeanStd):
    """The units of a model's values: a value v of the model means v std + mean, of all returns so far.

    What is stored, such as `value` of rollouts, is in units of rewards, because these units change. They are those of
    rewards if `norm` is False.
    """

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self._norm = norm

    def normalize(self, x: Tensor) -> Tensor:
        return super().normalize(x) if self._norm else x

    def denormalize(self, x: Tensor) -> Tensor:
        return super().denormalize(x) if self._norm else x

    @torch.no_grad()
    def change(self, model: nn.Module, return_M: Tensor, value: Tensor) -> Tensor:
        """Add returns to the statistics, and change a model, so that its values stay the same in units of rewards.

        If mean and std change, and the model does not, all its values move, and so do the targets, which contain
        values: they can grow without bound. Therefore the last layer of the value changes too (PopArt, van Hasselt et
        al. 2016, arXiv:1602.07714, prop. 1), so that

            v' std' + mean' = v std + mean.

        Before the first returns, the model has learned nothing that should stay; its values begin near the mean return.

        The layer is `value_layer` of the model; without it, the model does not change. Returns of this rank, and
        values, are in units of rewards. Returns what the model says now where it said `value` before.
        """
        if not self._norm:
            return value
        layer, mean, std, old = getattr(model, "value_layer", None), self.mean.clone(), self.std, self.normalize(value)
        keeps = (self.count > 0) & (layer is not None)
        self.update(return_M)
        if layer is not None:
            scale = torch.where(keeps, std / self.std, 1.0)
            layer.weight.mul_(scale)
            layer.bias.mul_(scale).add_(torch.where(keeps, (mean - self.mean) / self.std, 0.0))
        return torch.where(keeps, self.normalize(value), old)


class ValuesInUnits(Mixin):
    """What policies do whose critic predicts returns in `ValueUnits`; it stands before `Policy` as a base class."""

    def __init__(self, cfg: EasyDict, *args: Any, **kwargs: Any) -> None:
        """Build the policy as `Policy` does. Without the learn mode it can still compute its loss."""
        self._value_stats = ValueUnits(cfg.learn.value_norm)
        super().__init__(cfg, *args, **kwargs)
        self._acting["value_stats"] = self._value_stats

    def _create_model(self) -> nn.Module:
        return init_parameters(super()._create_model(), self._cfg)

    def _init_learn(self) -> None:
        self._value_stats.to(self._device)
        super()._init_learn()

    def _init_collect(self) -> None:
        self._value_stats.to(self._device)

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = self._run(self._model, obs, explore=True, mode="compute_actor_critic")
        return output | {"action": sample(output["logit"]), "value": self._value_stats.denormalize(output["value"])}

    def _arrange(self, rows: dict[str, Any]) -> Batch:
        """Return tensors `[T, N, ...]` as the units to shuffle: samples `[M, ...]`, or sequences `[N, T, ...]`."""
        return by_environment(rows) if self.remembers else flatten_rows(rows)

    def _targets(self, block: Block, epoch: int) -> dict[str, Tensor]:
        """Return the targets of one epoch, all `[M]`, or `[N, T]` for a recurrent model.

        Epoch 0 uses the values computed when collecting; later ones compute them again. `value` and `return_` are in
        the model's units, which are normalised if `value_norm` is set, and `adv` in the units of rewards.
        """
        value_TN, next_value_TN = self._values(block, recompute=epoch > 0)
        adv_TN, return_TN = estimate_advantages(self, block, value_TN, next_value_TN)
        targets_M = self._arrange({"value": value_TN, "adv": adv_TN, "return_": return_TN})
        value_M, return_M = targets_M["value"], targets_M["return_"]
        if epoch == 0:
            active_TN = block.get("active", torch.ones_like(return_TN, dtype=torch.bool))
            self._figures["explained_variance"] = explained_variance(value_TN[active_TN], return_TN[active_TN])
            active_M = self._arrange({"active": active_TN})["active"]
            value_M = self._value_stats.change(self._model, return_M[active_M], value_M)
        else:
            value_M = self._value_stats.normalize(value_M)
        return targets_M | {"value": value_M, "return_": self._value_stats.normalize(return_M)}

    def _values(self, block: Block, recompute: bool) -> tuple[Tensor, Tensor]:
        """Return V(s_t) and V(s_{t+1}) in units of rewards, both `[T, N]`, see `estimate_values`."""
        estimate = sequence_values if self.remembers else estimate_values
        return estimate(self, block, self._value_stats, recompute)

    def _state_dict_learn(self) -> dict[str, Any]:
        return super()._state_dict_learn() | {"value_stats": self._value_stats.state_dict()}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        self._value_stats.load_state_dict(state["value_stats"])  # the model predicts returns in these units


def normalize_advantages(batches: list[Batch]) -> list[Batch]:
    """Return minibatches, in each of which `adv` has mean 0 and variance 1 over all ranks; one collective.

    What has the `weight` 0 does not count.
    """
    weights = [batch["weight"] for batch in batches if "weight" in batch]
    normalized = normalize_parts([batch["adv"] for batch in batches], weights)
    return [batch | {"adv": adv_B} for batch, adv_B in zip(batches, normalized, strict=True)]


def flatten_rows(data: Any) -> Any:
    """Return tensors or nested dicts of shape `[T, N, ...]` reshaped to `[T N, ...]`."""
    return tree_map(lambda leaf: leaf.flatten(0, 1), data)

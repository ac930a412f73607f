"""The base class of actor-critic policies: acting with a stochastic policy, advantages, minibatches.

Shapes: T steps, N environments, M = T N samples, B samples of a minibatch, K ended episodes.
`rl_utils/distribution.py` describes logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np
import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy.base import Policy
from ding_lite.policy.policy_gradient.sequences import Sequences
from ding_lite.rl_utils.distribution import mode, sample
from ding_lite.rl_utils.policy_gradient import gae, gae_data
from ding_lite.torch_utils.minibatch import minibatches, normalize_parts
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_map


class ActorCriticPolicy(Policy):
    """Base of policies whose model returns `logit` and `value`.

    They are on-policy unless a subclass changes `learns_from`.
    """

    config: ClassVar[dict[str, Any]] = dict(
        learn=dict(
            value_weight=Key(0.5, "weight of the value loss; that of the policy loss is 1"),
            entropy_weight=Key(0.01, "weight of the entropy bonus"),
            ppo_param_init=Key(False, "initialise weights orthogonally, small ones in the policy's last layer"),
        ),
    )
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "collect"
    transition_with_policy_data: ClassVar[bool] = True
    action_spaces: ClassVar[tuple[type, ...]] = (
        *(gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete, gymnasium.spaces.Box, gymnasium.spaces.Dict),
    )
    recurrent: ClassVar[bool] = False  # whether its model may have `lstm_type`

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        model = cfg.policy.model
        if model.get("lstm_type") and not (cls.recurrent and model.get("share_encoder", True)):
            what = "share_encoder=False" if cls.recurrent else f"policy '{cfg.policy.type}', only with 'ppo'"
            raise ConfigError(f"policy.model.lstm_type={model.lstm_type} is not possible with {what}: leave one out.")

    def __init__(self, cfg: EasyDict, *args: Any, **kwargs: Any) -> None:
        """Build the policy as `Policy` does."""
        self._sequences = Sequences(self) if cfg.model.get("lstm_type") else None
        super().__init__(cfg, *args, **kwargs)

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "vac", ["ding_lite.model"]

    def _create_model(self) -> nn.Module:
        model = super()._create_model()
        if self._cfg.learn.ppo_param_init and hasattr(model, "init_parameters"):
            model.init_parameters()  # type: ignore[operator]  # mypy does not see the method that hasattr found
        return model

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "policy_loss", "value_loss", "entropy", "explained_variance"]

    # Preparing minibatches.

    def _minibatches(self, samples_M: dict[str, Any], sizes: list[int]) -> Iterator[dict[str, Any]]:
        """Yield the minibatches of one pass over the samples, in random order.

        Args:
            samples_M: dict of `[M, ...]` tensors.
            sizes: M of each rank.
        """
        cut = self._sequences.minibatches if self._sequences else minibatches
        batches = cut(samples_M, self._cfg.learn.batch_size, sizes)
        if self._cfg.learn.adv_norm:
            for batch, adv_B in zip(batches, normalize_parts([batch["adv"] for batch in batches]), strict=True):
                batch["adv"] = adv_B
        yield from batches

    def _advantages(self, block: dict[str, Any], value_TN: Tensor, next_value_TN: Tensor) -> tuple[Tensor, Tensor]:
        """Return advantages, and the returns that the values should predict, both `[T, N]`.

        Args:
            block: `reward`, `done`, `traj_flag` `[T, N]`.
            value_TN: V(s_t).
            next_value_TN: V(s_{t+1}), as `_values` returns it.
        """
        data = gae_data(value_TN, next_value_TN, block["reward"], block["done"], block["traj_flag"])
        adv_TN = gae(data, self._cfg.discount_factor, self._cfg.collect.gae_lambda)
        return adv_TN, adv_TN + value_TN

    @torch.no_grad()
    def _values(self, block: dict[str, Any], recompute: bool = False) -> tuple[Tensor, Tensor]:
        """Return V(s_t) and V(s_{t+1}), both `[T, N]`.

        Where an episode ended, V(s_{t+1}) is the value of its true final observation.

        Args:
            block: `obs` and `value`, `last_obs` `[N, ...]`, and `final_obs` `[K, ...]`, `final_index` `[K]` if any
                episode ended.
            recompute: compute V(s_t) with the current model instead of using `value`.
        """
        if self._sequences:
            return self._sequences.values(block, recompute)
        value_TN = block["value"]
        if recompute:
            value_M = self._run(self._model, flatten_rows(block["obs"]), mode="compute_critic")["value"]
            value_TN = value_M.view_as(value_TN)
        obs, final = block["last_obs"], "final_index" in block
        if final:
            obs = tree_map(lambda *parts: torch.cat(parts), obs, block["final_obs"])
        value_X = self._run(self._model, obs, mode="compute_critic")["value"].to(value_TN.dtype)
        num_envs = value_TN.shape[1]
        next_value_TN = torch.cat([value_TN[1:], value_X[None, :num_envs]])
        if final:
            next_value_TN.view(-1)[block["final_index"]] = value_X[num_envs:]
        return value_TN, next_value_TN

    # Acting.

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        run = partial(self._run, self._model, mode="compute_actor_critic")
        output = self._sequences.collecting.act(run, obs) if self._sequences else run(obs)
        return output | {"action": sample(output["logit"])}

    def _process_transition(self, obs: Any, policy_output: dict[str, Any], timestep: SimpleNamespace) -> dict[str, Any]:
        own = {
            key: policy_output[key]
            for key in ("logit", "value", "prev_state", "logit_pretrained")
            if key in policy_output
        }
        return super()._process_transition(obs, policy_output, timestep) | own

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> dict[str, Any]:
        run = partial(self._run, self._model, mode="compute_actor")
        output = self._sequences.evaluating.act(run, obs) if self._sequences else run(obs)
        return output | {"action": mode(output["logit"])}

    def _reset_collect(self, env_id: np.ndarray | None = None) -> None:
        if self._sequences:
            self._sequences.collecting.reset(env_id)

    def _reset_eval(self, env_id: np.ndarray | None = None) -> None:
        if self._sequences:
            self._sequences.evaluating.reset(env_id)

    def _state_dict_collect(self) -> dict[str, Any]:
        return self._sequences.collecting.state_dict() if self._sequences else {}

    def _load_state_dict_collect(self, state: dict[str, Any]) -> None:
        if self._sequences:
            self._sequences.collecting.load_state_dict(state)


def flatten_rows(data: Any) -> Any:
    """Return tensors or nested dicts of shape `[T, N, ...]` reshaped to `[T N, ...]`."""
    return tree_map(lambda leaf: leaf.flatten(0, 1), data)

"""Decision Transformer, DT (Chen et al. 2021, arXiv:2106.01345): supervised learning of actions, given their returns.

A transformer sees the last K steps of an episode, each with the return-to-go R_t, the sum of all rewards from step t to
the end, and predicts their actions:

    L = mean loss(a_t, pi(R_{t-K+1}, s_{t-K+1}, a_{t-K+1}, ..., R_t, s_t))

The mean is over the steps of sequences that start anywhere in a trajectory; the loss is the squared error of continuous
actions, and the cross entropy of discrete ones. To play well, the policy is asked for a large return: R_0 is
`rtg_target`, and R falls by each reward, see `Policy.see_reward`. All of these are in the environment's true units: the
rewards of the data set, the return that is asked for, and the rewards that are seen.

Logged figures:

* `total_loss`: L.
* `accuracy`, discrete actions only: the share of steps whose most likely action is the data's.
* `action_error`, continuous actions only: the mean absolute difference from the data's action.
* `grad_norm`: the norm of the averaged gradient before clipping. `learning_rate`.

Deviation from the paper: dropout is applied to the results of a layer's two parts only.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import IMITATION_KEYS, LEARNING_RATE_KEYS
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Key
from ding_lite.utils.ranks.collectives import allreduce_data
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_leaves, tree_map


@POLICY_REGISTRY.register("dt")
class DTPolicy(Policy):
    """Decision Transformer. Override `_loss` to change the objective."""

    key_groups = (IMITATION_KEYS, LEARNING_RATE_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="dt",
        context_len=Key(20, "K: env steps that the transformer sees", low=1),
        rtg_scale=Key(1000.0, "returns-to-go are divided by this number", above=0),
        rtg_target=Key(None, "true return that evaluations ask for; None: rtg_scale", type=float),
        model=dict(
            n_blocks=Key(3, "layers of the transformer", low=1),
            h_dim=Key(128, "features of a token, a multiple of n_heads", low=1),
            n_heads=Key(1, "attention heads of a layer", low=1),
            drop_p=Key(0.1, "share of the results of layers that dropout sets to zero", low=0, below=1),
            max_timestep=Key(4096, "steps of an episode with an embedding of their own", low=1),
        ),
        learn=dict(
            learning_rate=1e-4, optimizer="adamw", weight_decay=1e-4, grad_clip_type="clip_norm", grad_clip_value=0.25
        ),
    )
    model_type = "dt"
    learns_from = "dataset"
    action_spaces = (gymnasium.spaces.Discrete, gymnasium.spaces.Box)
    unit_actions = True
    _model: Any
    model_attributes = ("discrete", "drop_p", "h_dim", "head", "n_blocks")
    logged_figures = ("accuracy", "action_error")

    def _prepare(self, batch: Batch) -> Batch:
        action = batch["action"]
        if not self._model.discrete:
            action = action.to(self._dtype).flatten(2).clamp(-1.0, 1.0)
        rtg = batch["rtg"].to(self._dtype) / self._cfg.rtg_scale
        valid_BK = batch["valid"].to(self._dtype)
        step_weight_BK = valid_BK / allreduce_data(valid_BK.mean(), op="mean")
        return {**batch, "action": action, "rtg": rtg, "step_weight": step_weight_BK}

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        if not self._model.drop_p:
            return {}
        (size, steps), model = batch["valid"].shape, self._model
        shape = (size, model.n_blocks, 2, 3 * steps, model.h_dim)
        return {"dropout": torch.rand(shape, device=self._device, dtype=self._dtype)}

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L and detached figures.

        Args:
            batch: sequences, see `SequenceDataset`: `obs` `[B, K, ...]`, `action` `[B, K]` or `[B, K, D]`, `rtg`,
                `timestep` and `valid` `[B, K]`; and `step_weight` `[B, K]`, which is 0 after an episode's end, and 1
                in the mean over all ranks.
        """
        inputs = {key: batch[key] for key in ("action", "rtg", "timestep", "valid")}
        output = self._run(self._model, batch["obs"], **inputs, noise=batch.get("noise", {}).get("dropout"))
        action, valid_BK = batch["action"], batch["valid"]
        if self._model.discrete:
            logit_BKA = output["logit"]
            loss_BK = functional.cross_entropy(logit_BKA.transpose(1, 2), action, reduction="none")
            figures = {"accuracy": _mean(logit_BKA.argmax(-1) == action, valid_BK)}
        else:
            error_BKD = output["action"] - action
            loss_BK = error_BKD.square().mean(-1)
            figures = {"action_error": _mean(error_BKD.detach().abs().mean(-1), valid_BK)}
        return (loss_BK * batch["step_weight"]).mean(), figures

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        return self._continue(self._to_device(obs), explore=False)

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        return self._continue(self._to_device(obs), explore=True)

    def _continue(self, obs: Any, explore: bool) -> dict[str, Any]:
        """Return the actions for observations `[N, ...]`, and add the step to what is remembered of the episodes.

        `_memory` has the last K steps, the newest last, and of each episode the number of its steps and its return.
        """
        memory, num_envs, length = self._memory[explore], len(next(tree_leaves(obs))), self._cfg.context_len
        step_N = memory.get("step", torch.zeros(num_envs, dtype=torch.int64, device=self._device))
        return_N = memory.get("return", torch.zeros(num_envs, dtype=self._dtype, device=self._device))
        target = self._cfg.rtg_scale if self._cfg.rtg_target is None else self._cfg.rtg_target
        size = self._model.head[-1].out_features
        action = step_N * 0 if self._model.discrete else return_N.new_zeros(num_envs, size)
        newest = {"obs": obs, "action": action, "rtg": (target - return_N) / self._cfg.rtg_scale}
        before = {key: memory[key] for key in newest if key in memory}
        if not before:
            before = tree_map(lambda leaf: leaf.new_zeros(num_envs, length, *leaf.shape[1:]), newest)
        context = tree_map(lambda old, new: torch.cat([old[:, 1:], new.unsqueeze(1)], 1), before, newest)
        timestep_NK = step_N[:, None] + torch.arange(1 - length, 1, device=self._device)
        steps = {"timestep": timestep_NK.clamp(min=0), "valid": timestep_NK >= 0}
        output = self._run(self._model, context["obs"], action=context["action"], rtg=context["rtg"], **steps)
        chosen = output["logit"][:, -1].argmax(-1) if self._model.discrete else output["action"][:, -1]
        context["action"][:, -1] = chosen
        memory |= context | {"step": step_N + 1, "return": return_N}
        return {"action": chosen, "prev_state": {"step": step_N}}

    def see_reward(self, reward: np.ndarray, explore: bool = True) -> None:
        memory = self._memory[explore]
        memory["return"] = memory["return"] + torch.as_tensor(reward, device=self._device, dtype=self._dtype)


def _mean(x_BK: Tensor, valid_BK: Tensor) -> Tensor:
    """Return the mean over valid steps, a scalar."""
    return (x_BK * valid_BK).sum() / valid_BK.sum()

"""Recurrent replay from demonstrations, R2D3 (Paine et al. 2019, arXiv:1909.01387).

R2D2 whose batches contain sequences of demonstrations, see `offline/demonstration_sequences.py`:

    policy.other.replay_buffer = dict(type="demonstration_sequences", data_path="expert.hdf5", ratio=0.25)

The paper's loss is that of R2D2. Two terms of DQfD can be added, as in DI-engine: for each step that is learned from,

    w (lambda1 d_n^2 + lambda_one_step_td d_1^2 + lambda2 J),   d_k = y_k - Q(s_t, a_t)
    y_1 = h(r_t + g h^-1(Q'(s_{t+1}, argmax Q(s_{t+1}, .)))),   y_n as in `policy/value/r2d2.py`

with J of `dqfd.py`, 0 for own samples, in the unit of rescaled values. The priority of a sequence is that of R2D2 for
lambda1 |d_n| + lambda_one_step_td |d_1| + lambda2 J in place of |d_n|.

Shapes: T rows of a sequence, U steps to learn from, B sequences, A actions.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.offline.policy.dqfd import expert_margin
from ding_lite.policy.sequences import RecurrentPolicy, learned_rows
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.policy.value.r2d2 import R2D2Policy
from ding_lite.rl_utils.common import bootstrapped, pick, value_inv_transform, value_transform, weighted_mean
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key, merge_keys
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("r2d3")
class R2D3Policy(RecurrentPolicy, DQNPolicy):
    """R2D3: R2D2 that may know what a demonstration did."""

    key_groups = R2D2Policy.key_groups
    config: ClassVar[dict[str, Any]] = merge_keys(
        R2D2Policy.config,
        dict(
            type="r2d3",
            priority=True,
            priority_IS_weight=True,
            learn=dict(
                lambda1=Key(1.0, "weight of the n-step error", low=0),
                lambda2=Key(0.0, "weight of the margin; DI-engine's configs: 1", low=0),
                lambda_one_step_td=Key(0.0, "weight of the error of one step; DI-engine's configs: 1", low=0),
                margin_function=Key(0.8, "by how much a demonstrated action's value is to exceed all others", low=0),
            ),
        ),
    )
    model_type = R2D2Policy.model_type
    required_columns = (*DQNPolicy.required_columns, "next_obs_1")
    logged_figures = (*DQNPolicy.logged_figures, "margin_loss", "expert_best")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures; `batch` has `is_expert` `[B]` if there are demonstrations."""
        cfg, learn, rows = self._cfg, self._cfg.learn, learned_rows(batch, self._cfg)
        transform, inverse = (value_transform, value_inv_transform) if learn.value_rescale else (_same, _same)
        q_TBA, next_q_TBA = self._unroll(self._model, batch)
        with torch.no_grad():
            _, target_q_TBA = self._unroll(self._target_model, batch)
            next_q_TB = inverse(pick(target_q_TBA, next_q_TBA.argmax(-1)))
            target_UB = transform(bootstrapped(rows, next_q_TB.gather(0, rows["last_step"])))
            after = slice(cfg.burnin_step, cfg.burnin_step + cfg.unroll_len)
            goes_on_UB = ~batch["done_1"][after]
            first_UB = batch["reward_1"][after] + cfg.discount_factor * goes_on_UB * next_q_TB[: cfg.unroll_len]
        q_UBA, action_UB = q_TBA[: cfg.unroll_len], rows["action"]
        q_UB = pick(q_UBA, action_UB)
        expert_B = batch["is_expert"] if "is_expert" in batch else torch.zeros_like(batch["done"][0])
        error_UB, error_1_UB = target_UB - q_UB, transform(first_UB) - q_UB
        margin_UB = expert_margin(q_UBA, action_UB, learn.margin_function) * expert_B
        weights = learn.lambda1, learn.lambda_one_step_td
        sum_UB = weights[0] * error_UB.square() + weights[1] * error_1_UB.square() + learn.lambda2 * margin_UB
        size_UB = weights[0] * error_UB.abs() + weights[1] * error_1_UB.abs() + learn.lambda2 * margin_UB
        share = expert_B.sum().clamp(min=1) / len(expert_B)
        figures = {
            "margin_loss": margin_UB / share,
            "expert_best": (q_UBA.argmax(-1) == action_UB) * expert_B / share,
            "q_value": q_UB,
            "priority": self._priority(size_UB),
        }
        loss = weighted_mean(sum_UB, batch.get("weight"))
        return loss, {key: value.detach() for key, value in figures.items()}

    def _prepare(self, batch: Batch) -> Batch:
        batch = super()._prepare(batch)
        if self._cfg.learn.ignore_done:
            batch["done_1"] = torch.zeros_like(batch["done_1"])
        return batch


def _same(x: Tensor) -> Tensor:
    return x

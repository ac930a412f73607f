"""Deep Q-learning from demonstrations (DQfD, Hester et al. 2018, arXiv:1704.03732).

DQN with demonstrations in every batch, from which it learns before it plays. The loss has the n-step error of DQN, that
of the first step alone, and a margin by which the demonstrated action is to be better than all others:

    L = mean w (d_1^2 + lambda1 d_n^2 + lambda2 J),
    d_k = y_k - Q(s, a),  y_1 = r_t + g max_b Q'(s_{t+1}, b),  y_n as in `policy/value/dqn.py`
    J = max_b (Q(s, b) + m 1(b != a)) - Q(s, a) for demonstrations, 0 for own samples

with the margin m = `learn.margin_function` and the weights w of prioritised replay. The paper's fourth term, an L2
penalty, is `learn.weight_decay`. The priority of a sample is |d_1| + lambda1 |d_n| + lambda2 J. The demonstrations are
in the buffer `demonstrations`, see `offline/demonstrations.py`:

    policy.other.replay_buffer = dict(type="demonstrations", data_path="expert.hdf5", first_updates=1000)

Without that buffer there are no demonstrations, and J is 0.

Shapes: B samples in a batch, A actions.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.policy.common_keys import DOUBLE_KEYS, DQN_KEYS, LEARNING_RATE_KEYS, NOISY_KEYS
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import bootstrapped, pick, weighted_mean
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("dqfd")
class DQFDPolicy(DQNPolicy):
    """DQfD: DQN with another loss, which knows what a demonstration did."""

    key_groups = (DQN_KEYS, LEARNING_RATE_KEYS, DOUBLE_KEYS, NOISY_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="dqfd",
        nstep=10,
        learn=dict(
            lambda1=Key(1.0, "weight of the n-step error", low=0),
            lambda2=Key(1.0, "weight of the margin", low=0),
            margin_function=Key(0.8, "by how much a demonstrated action's value is to exceed all others", low=0),
        ),
    )
    required_columns = (*DQNPolicy.required_columns, "next_obs_1")
    forward_passes = (*DQNPolicy.forward_passes, "target_1", "chooser_1")
    logged_figures = (*DQNPolicy.logged_figures, "margin_loss", "expert_best")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures; `batch` has `is_expert` `[B]` if there are demonstrations."""
        online = self._run(self._model, batch["obs"], layer_noise=batch["noise"].get("online"))
        q_BA, action_B = online["logit"], batch["action"]
        q_B = pick(q_BA, action_B)
        error_B = self._target(batch) - q_B
        error_1_B = self._target(self._first_step(batch)) - q_B
        expert_B = batch["is_expert"] if "is_expert" in batch else torch.zeros_like(batch["done"])
        learn = self._cfg.learn
        margin_B = expert_margin(q_BA, action_B, learn.margin_function) * expert_B
        sum_B = error_1_B.square() + learn.lambda1 * error_B.square() + learn.lambda2 * margin_B
        priority_B = error_1_B.abs() + learn.lambda1 * error_B.abs() + learn.lambda2 * margin_B
        best_B = (q_BA.argmax(-1) == action_B) & expert_B
        share = expert_B.sum().clamp(min=1) / len(expert_B)
        figures = {
            "margin_loss": margin_B / share,
            "expert_best": best_B / share,
            "q_value": q_BA,
            "priority": priority_B,
        }
        return weighted_mean(sum_B, batch.get("weight")), {key: value.detach() for key, value in figures.items()}

    def _prepare(self, batch: Batch) -> Batch:
        batch = super()._prepare(batch)
        if self._cfg.learn.ignore_done:
            batch["done_1"] = torch.zeros_like(batch["done_1"])
        return batch

    @torch.no_grad()
    def _target(self, batch: Batch) -> Tensor:
        """Return what Q(s, a) should be, `[B]`."""
        target, next_action_B = self._next_outputs(batch)
        return bootstrapped(batch, pick(target["logit"], next_action_B))

    def _first_step(self, batch: Batch) -> Batch:
        """Return the batch as if only the first of its n rewards had been summed."""
        gamma = torch.full_like(batch["value_gamma"], float(self._cfg.discount_factor))
        noise = {name: batch["noise"].get(f"{name}_1") for name in ("target", "chooser")}
        first = {key: batch[f"{key}_1"] for key in ("reward", "done", "next_obs")}
        return {**first, "value_gamma": gamma, "noise": noise}


def expert_margin(q_XA: Tensor, action_X: Tensor, margin: float) -> Tensor:
    """Return J `[...]`: by how much a demonstrated action's value does not exceed all others by the margin."""
    others_XA = torch.ones_like(q_XA).scatter(-1, action_X.unsqueeze(-1), 0.0)
    return (q_XA + margin * others_XA).amax(-1) - pick(q_XA, action_X)

"""Recurrent Q-learning from replayed sequences, R2D2 (Kapturowski et al. 2019, openreview.net/forum?id=r1lyTjAqYX).

The network carries a state through each episode, so its values depend on everything that was observed in the episode.
Replay stores the state before each step. A sample is a sequence that starts from its stored state. Its first
`burnin_step` steps only bring that state up to date. For the `unroll_len` steps after them, the loss is the mean over
steps and samples of

    w (Q(s_t, a_t) - y_t)^2,   y_t = h(r_t + g r_{t+1} + ... + g^{n-1} r_{t+n-1} + g^n h^-1(Q'(s_{t+n}, a*))),

with discount g, target network Q', a* = argmax Q(s_{t+n}, .), the importance weight w of the sample (1 without
`priority_IS_weight`) and the rescaling h of values, see `rl_utils/common.py`; without `value_rescale` h(x) = x.
If the trajectory is cut within the n steps, the sum ends there. If it ended in a terminal state, the last term is 0; if
it was truncated, s_{t+n} is the true final observation. The priority of a sequence is (eq. 1 of the paper)

    eta max_t |Q(s_t, a_t) - y_t| + (1 - eta) mean_t |Q(s_t, a_t) - y_t|.

Shapes: T rows of a sequence, U steps to learn from, B sequences, A actions.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.policy.common_keys import DQN_KEYS, LEARNING_RATE_KEYS, SPREAD_KEYS
from ding_lite.policy.sequences import SEQUENCE_KEYS, RecurrentPolicy, learned_rows
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import bootstrapped, pick, value_inv_transform, value_transform, weighted_mean
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key, merge_keys
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("r2d2")
class R2D2Policy(RecurrentPolicy, DQNPolicy):
    """R2D2 with epsilon-greedy exploration. Override `_loss` to change the objective."""

    key_groups = (DQN_KEYS, LEARNING_RATE_KEYS, SPREAD_KEYS)
    config: ClassVar[dict[str, Any]] = merge_keys(
        SEQUENCE_KEYS,
        dict(
            type="r2d2",
            discount_factor=0.997,
            nstep=5,
            unroll_len=40,
            random_collect_size=0,
            burnin_step=20,
            learn=dict(
                update_per_collect=1,
                batch_size=64,
                learning_rate=0.0001,
                value_rescale=Key(True, "learn rescaled values, so that rewards of any size can stay as they are"),
            ),
            other=dict(eps=dict(end=0.05), replay_buffer=dict(replay_buffer_size=1000)),
        ),
    )
    model_type = "drqn"

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures of sequences as `SequenceView` makes them."""
        cfg = self._cfg
        rows = learned_rows(batch, cfg)
        q_TBA, next_q_TBA = self._unroll(self._model, batch)
        with torch.no_grad():
            _, target_q_TBA = self._unroll(self._target_model, batch)
            next_q_TB = pick(target_q_TBA, next_q_TBA.argmax(-1))
            next_q_UB = next_q_TB.gather(0, rows["last_step"])
            if cfg.learn.value_rescale:  # h^-1
                next_q_UB = value_inv_transform(next_q_UB)
            target_UB = bootstrapped(rows, next_q_UB)
            if cfg.learn.value_rescale:  # h
                target_UB = value_transform(target_UB)
        q_UB = pick(q_TBA[: cfg.unroll_len], rows["action"])
        error_UB = target_UB - q_UB
        loss = weighted_mean(error_UB.square(), batch.get("weight"))
        return loss, {"priority": self._priority(error_UB.detach().abs()), "q_value": q_UB.detach()}

"""QMIX (Rashid et al. 2018, arXiv:1803.11485) and VDN (Sunehag et al. 2017, arXiv:1706.05296), for several agents.

The agents share a reward and a network, which gives the value Q_m(o_m, a_m) of each agent's action. Their mixture is
the value of all actions together. It rises with each Q_m, so each agent finds its part of the best joint action alone:

    Q_tot(s, a) = mix(Q_1(o_1, a_1), ..., Q_M(o_M, a_M); s),   d mix / d Q_m >= 0,
    L = mean w (Q_tot(s_t, a_t) - y_t)^2,
    y_t = r_t + g r_{t+1} + ... + g^{n-1} r_{t+n-1} + g^n Q'_tot(s_{t+n}, a*),   a*_m = argmax_a Q'_m(o_{m,t+n}, a),

with discount g, the global state s and the target network Q'. With `learn.double_q`, the online network chooses a*. In
VDN, `model.mixer=False`, the mixture is the sum. The agents have a memory (`model.lstm_type`): o stands for everything
that an agent has observed in the episode, and samples are sequences from replay as in `policy/value/r2d2.py`, whose
rules at their ends and priorities apply. A sequence of one step without burn-in is a transition.

Each agent explores on its own, with probability epsilon, among the actions that its mask allows.

Shapes: T rows of a sequence, U steps to learn from, B sequences, M agents, A actions of each, G features of the global
state.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor, nn

from ding_lite.model.recurrent import unroll
from ding_lite.multi_agent.model.agents import pick_active
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import EPSILON_KEYS, LEARNING_RATE_KEYS, REPLAY_KEYS, SPREAD_KEYS, TARGET_KEYS
from ding_lite.policy.sequences import SEQUENCE_KEYS, RecurrentPolicy, after_burnin, learned_rows
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import bootstrapped, weighted_mean
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Groups, Key, merge_keys
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import GLOBAL

# Keys of QMIX and of what was made of it.
QMIX_KEYS: dict[str, Any] = merge_keys(
    SEQUENCE_KEYS,
    dict(
        cuda=True,
        nstep=1,
        unroll_len=10,
        burnin_step=0,
        random_collect_size=0,
        learn=dict(
            update_per_collect=20,
            batch_size=32,
            optimizer="rmsprop",
            learning_rate=0.0005,
            adam_eps=1e-5,
            weight_decay=1e-5,
            grad_clip_type="clip_norm",
            grad_clip_value=100.0,
            target_theta=0.008,
        ),
        other=dict(
            eps=dict(start=1.0, end=0.05, decay=50000),
            replay_buffer=dict(replay_buffer_size=5000),
        ),
    ),
)
QMIX_GROUPS = (
    *(REPLAY_KEYS, LEARNING_RATE_KEYS, EPSILON_KEYS, SPREAD_KEYS),
    dict(learn=dict(target_theta=TARGET_KEYS["learn"]["target_theta"])),
)
DOUBLE_Q_KEYS: dict[str, Any] = dict(
    learn=dict(double_q=Key(False, "double Q-learning: the online network chooses the actions of the target"))
)


class MixingPolicy(Policy):
    """What QMIX and its kin have in common; their further base classes are `RecurrentPolicy` and `DQNPolicy`."""

    key_groups: ClassVar[Groups] = QMIX_GROUPS
    config: ClassVar[dict[str, Any]] = QMIX_KEYS
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.MultiDiscrete,)
    multi_agent = True
    _unroll: Any
    _target_model: Any

    def _values(self, batch: Batch, key: str = "logit") -> tuple[dict[str, Any], Tensor, Tensor, Tensor]:
        """Run the networks over sequences.

        Returns:
            What `learned_rows` returns, with the global `state` `[U, B, G]`, and `next_state` `[T, B, G]` of what
            follows all rows after burn-in, both None if there is none; then the network's output `key` for the U rows,
            its output for what follows, and that of the target network.
        """
        cfg = self._cfg
        rows: dict[str, Any] = learned_rows(batch, cfg) | {"state": None, "next_state": None}
        if GLOBAL in batch["obs"]:
            of_states = after_burnin(batch, cfg.burnin_step) | {"prev_state": {}}
            output, rows["next_state"] = unroll(
                lambda obs, **_: {GLOBAL: obs[GLOBAL], "next_state": {}}, GLOBAL, of_states
            )
            rows["state"] = output[GLOBAL][: cfg.unroll_len]
        q, next_q = self._unroll(self._model, batch, key)
        with torch.no_grad():
            _, target_q = self._unroll(self._target_model, batch, key)
        return rows, q[: cfg.unroll_len], next_q, target_q

    def _mix(self, network: nn.Module, state: Tensor | None, **values: Any) -> Tensor:
        """Return what a network's mixers make of values of actions, such as Q_tot `[T, B]`."""
        total: Tensor = self._run(network, state, mode="mix", **values)["total_q"]
        return total


@POLICY_REGISTRY.register("qmix")
class QMIXPolicy(MixingPolicy, RecurrentPolicy, DQNPolicy):
    """QMIX and VDN. Override `_loss` to change the objective."""

    key_groups: ClassVar[Groups] = (*QMIX_GROUPS, DOUBLE_Q_KEYS)
    config: ClassVar[dict[str, Any]] = dict(type="qmix")
    model_type = "qmix"

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures of sequences as `SequenceView` makes them."""
        rows, q_UBMA, next_q_TBMA, target_q_TBMA = self._values(batch)
        q_UB = self._mix(self._model, rows["state"], q_XM=pick_active(q_UBMA, rows["action"]))
        with torch.no_grad():
            chooser_TBMA = next_q_TBMA if self._cfg.learn.double_q else target_q_TBMA
            next_q_TBM = pick_active(target_q_TBMA, chooser_TBMA.argmax(-1))
            next_q_TB = self._mix(self._target_model, rows["next_state"], q_XM=next_q_TBM)
            target_UB = bootstrapped(rows, next_q_TB.gather(0, rows["last_step"]))
        error_UB = target_UB - q_UB
        loss = weighted_mean(error_UB.square(), batch.get("weight"))
        return loss, {"priority": self._priority(error_UB.detach().abs()), "q_value": q_UB.detach()}

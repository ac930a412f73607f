"""Parallelised Q-network, PQN (Gallici et al. 2024, arXiv:2407.04811): Q-learning without replay and without a target.

Many environments take T steps with epsilon-greedy actions. The network's own values bootstrap lambda returns, which are
Peng's Q(lambda), and layer normalisation keeps them from diverging:

    R_t = r_t + g (1 - done) (lambda R_{t+1} + (1 - lambda) max_a Q(s_{t+1}, a))
    L = mean (R_t - Q(s_t, a_t))^2

Where a collect or an episode without a terminal state ends, R_t = r_t + g max_a Q(s_{t+1}, a). g is the discount. The
returns are computed once for each collect; `epoch_per_collect` passes of minibatches follow.

Shapes: T steps, N environments, M = T N samples, B samples of a minibatch, A actions, K ended episodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ding_lite.policy.common_keys import EPOCH_KEYS, EPSILON_KEYS, LEARNING_RATE_KEYS, ROLLOUT_KEYS
from ding_lite.policy.policy_gradient.actor_critic import flatten_rows, next_values
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import pick, weighted_mean
from ding_lite.rl_utils.policy_gradient import gae, gae_data
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.torch_utils.minibatch import explained_variance, minibatches, rank_sizes
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("pqn")
class PQNPolicy(DQNPolicy):
    """PQN for discrete actions."""

    key_groups = (ROLLOUT_KEYS, EPOCH_KEYS, LEARNING_RATE_KEYS, EPSILON_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="pqn",
        model=dict(
            norm_type=Key("LN", "normalisation of the hidden layers: 'LN', or None", choices=("LN", None)),
        ),
        learn=dict(
            batch_size=128,
            learning_rate=2.5e-4,
            epoch_per_collect=4,
            grad_clip_type="clip_norm",
            grad_clip_value=10.0,
        ),
        collect=dict(
            n_sample=512,
            q_lambda=Key(0.65, "lambda of the returns; 0: one step", low=0, high=1),
        ),
        other=dict(eps=dict(start=1.0, end=0.05, decay=100_000)),
    )
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "collect"
    allows_lag = False
    stored_outputs = ("logit",)
    logged_figures: ClassVar[tuple[str, ...]] = ("q_value", "td_error", "explained_variance", "epsilon")

    def _init_learn(self) -> None:
        self._optimizer = self._add_optimizer("model", self._model)

    @torch.no_grad()
    def _returns(self, block: Block) -> tuple[Tensor, Tensor]:
        """Return max_a Q(s_t, a) and R_t, both `[T, N]`, of a block as `Policy.to_samples` returns it."""
        value_TN = block["logit"].amax(-1)
        next_value_TN = next_values(block, value_TN, lambda obs: self._run(self._model, obs)["logit"].amax(-1))
        data = gae_data(value_TN, next_value_TN, block["reward"], block["done"], block["traj_flag"])
        return value_TN, value_TN + gae(data, self._cfg.discount_factor, self._cfg.collect.q_lambda)

    def _batches(self, samples: Batch) -> Iterator[Batch]:
        block = self._to_device(samples)
        value_TN, return_TN = self._returns(block)
        self._figures["explained_variance"] = explained_variance(value_TN, return_TN)
        columns = {key: block[key] for key in ("obs", "action", "active") if key in block}
        samples_M = flatten_rows(columns | {"return_": return_TN})
        sizes = rank_sizes(len(samples_M["action"]))
        for _ in range(self._cfg.learn.epoch_per_collect):
            yield from minibatches(samples_M, self._cfg.learn.batch_size, sizes)

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        q_B = pick(self._run(self._model, batch["obs"])["logit"], batch["action"])
        error_B = batch["return_"] - q_B
        loss = weighted_mean(error_B.square(), batch.get("weight"))
        return loss, {"q_value": q_B.detach(), "td_error": error_B.detach().abs()}

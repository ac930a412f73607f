"""SAC and TD3 with memories, for environments whose observations do not tell the whole state.

Actor and critics have a memory each (`model.lstm_type`), and learn from replayed sequences as R2D2 does (Kapturowski et
al. 2019, openreview.net/forum?id=r1lyTjAqYX): replay stores the states of both before every step, a sequence begins
with the stored ones, and its first `burnin_step` rows only bring them up to date. The losses are those of
`policy/continuous/sac.py` and `policy/continuous/ddpg.py`, as means over the `unroll_len` rows after these, with
histories in the place of states. The priority of a sequence is (eq. 1 of the paper), with the errors of its rows,

    eta max_t |y_t - Q_t| + (1 - eta) mean_t |y_t - Q_t|.

Shapes: T rows of a sequence, U steps to learn from, B sequences, N environments, D dimensions of an action.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.policy.base import Policy
from ding_lite.policy.continuous.ddpg import TD3_KEYS, DDPGPolicy
from ding_lite.policy.continuous.sac import SACPolicy
from ding_lite.policy.sequences import SEQUENCE_KEYS, RecurrentPolicy, after_burnin, learned_rows
from ding_lite.torch_utils.data import Batch
from ding_lite.utils.key import merge_keys
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map


class RecurrentActorCritic(Policy):
    """What both policies do: they arrange sequences as `SequenceEncoder` takes them."""

    model_type = "recurrent_qac"

    def _prepare(self, batch: Batch) -> Batch:
        """Return sequences with `obs` and `next_obs` as `SequenceEncoder` takes them, all others `[U, B, ...]`."""
        batch, cfg = super()._prepare({**batch, "action": batch["action"].flatten(0, 1)}), self._cfg
        burnin, start, state = cfg.burnin_step, batch["episode_start"], self._to_device(batch.pop("prev_state"))
        if burnin:
            with torch.no_grad():
                first = tree_map(lambda leaf: leaf[:burnin], batch["obs"])
                run = partial(self._run, self._model, first, mode="remember")
                state = run(prev_state=state, episode_start=start[:burnin])["next_state"]
        rows = learned_rows({**batch, "action": batch["action"].unflatten(0, start.shape)}, cfg)
        following = after_burnin(batch, burnin) | {"prev_state": state, "last_step": rows.pop("last_step")}
        now = {key: following[key] for key in ("obs", "episode_start")}
        obs = tree_map(lambda leaf: leaf[: cfg.unroll_len], now) | {"prev_state": state}
        rest = {key: column for key, column in batch.items() if key not in following}
        return {**rest, **rows, "obs": obs, "next_obs": following}

    def _draw(self, batch: Batch) -> Tensor:
        """Return standard normal numbers `[U, B, D]`."""
        size = (self._cfg.unroll_len, len(batch["index"]), batch["action"].shape[-1])
        return torch.randn(size, dtype=self._dtype, device=self._device)


@POLICY_REGISTRY.register("recurrent_sac")
class RecurrentSACPolicy(RecurrentActorCritic, RecurrentPolicy, SACPolicy):
    """SAC with memories. Override `_critic_loss` or `_actor_loss` to change the objective."""

    config: ClassVar[dict[str, Any]] = merge_keys(SEQUENCE_KEYS, dict(type="recurrent_sac"))

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        return {name: self._draw(batch) for name in ("next", "actor")}


@POLICY_REGISTRY.register("recurrent_td3")
class RecurrentTD3Policy(RecurrentActorCritic, RecurrentPolicy, DDPGPolicy):
    """TD3 with memories. Override `_critic_loss` or `_actor_loss` to change the objective."""

    config: ClassVar[dict[str, Any]] = merge_keys(TD3_KEYS, SEQUENCE_KEYS, dict(type="recurrent_td3"))

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        return {"target": self._draw(batch)} if self._cfg.learn.noise else {}

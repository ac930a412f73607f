"""SAC and TD3 with memories, for environments whose observations do not tell the whole state.

Actor and critics have a memory each (`model.lstm_type`), and learn from replayed sequences as R2D2 does (Kapturowski et
al. 2019, openreview.net/forum?id=r1lyTjAqYX): replay stores the states of both before every step, a sequence begins
with the stored ones, and its first `burnin_step` rows only bring them up to date. The losses are those of
`policy/continuous/sac.py` and `policy/continuous/ddpg.py`, as means over the `unroll_len` rows after these, with
histories in the place of states. The priority of a sequence is (eq. 1 of the paper), with the errors of its rows,

    eta max_t |y_t - Q_t| + (1 - eta) mean_t |y_t - Q_t|.

Deviations from the paper: target networks begin with the states of the networks that they follow; sequences start at
any stored step and may contain several episodes; the networks see observations alone.

Logged figures: those of the algorithms without memory.

Shapes: T rows of a sequence, U steps to learn from, B sequences, N environments, D dimensions of an action.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ding_lite.policy.base import Policy
from ding_lite.policy.continuous.ddpg import DDPGPolicy
from ding_lite.policy.continuous.sac import SACPolicy
from ding_lite.policy.continuous.td3 import TD3_KEYS
from ding_lite.policy.sequences import EpisodeState
from ding_lite.utils.key import Key, merge_keys
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map

SEQUENCE_KEYS: dict[str, Any] = dict(
    unroll_len=Key(16, "env steps of a sequence that are learned from; n_sample and sizes count sequences", low=1),
    burnin_step=Key(4, "env steps before these that only bring the recurrent states up to date", low=0),
    random_collect_size=Key(64, "sequences per rank with random actions before learning starts", low=0),
    learn=dict(
        batch_size=32,
        priority_eta=Key(
            0.9, "eta: share of the largest error in a sequence's priority; the rest is the mean", low=0, high=1
        ),
    ),
    collect=dict(
        n_sample=Key(None, "sequences per rank and collect; None: one per environment", type=int, low=1),
    ),
    other=dict(
        replay_buffer=dict(
            replay_buffer_size=Key(6000, "capacity: sequences of unroll_len env steps per rank", low=1),
        ),
    ),
)


class RecurrentPolicy(Policy):
    """What SAC and TD3 do differently if their networks have memories."""

    stored_outputs = ("prev_state",)

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "recurrent_qac", ["ding_lite.model"]

    def _prepare(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return sequences with `obs` and `next_obs` as `SequenceEncoder` takes them, all others `[U, B, ...]`."""
        burnin, unroll_len = self._cfg.burnin_step, self._cfg.unroll_len
        action_TBD = batch["action"]
        flat = super()._prepare({**batch, "action": action_TBD.flatten(0, 1)})
        batch = {**flat, "action": flat["action"].unflatten(0, action_TBD.shape[:2])}
        obs, start, state = batch["obs"], batch["episode_start"], self._to_device(batch.pop("prev_state"))
        if burnin:
            with torch.no_grad():
                first = tree_map(lambda leaf: leaf[:burnin], obs)
                run = partial(self._run, self._model, first, mode="remember")
                state = run(prev_state=state, episode_start=start[:burnin])["next_state"]
        rows: dict[str, Any] = {"obs": tree_map(lambda leaf: leaf[burnin:], obs), "episode_start": start[burnin:]}
        following = {**rows, "prev_state": state, "last_obs": batch.pop("last_obs")}
        following["last_step"] = batch.pop("last_step")[burnin : burnin + unroll_len] - burnin
        if "final_index" in batch:
            following["final_index"] = batch.pop("final_index") - burnin * start.shape[1]
            following["final_obs"] = batch.pop("final_obs")
        learned = tree_map(lambda leaf: leaf[:unroll_len], rows) | {"prev_state": state}
        for key in ("action", "reward", "done", "value_gamma"):
            batch[key] = batch[key][burnin : burnin + unroll_len]
        return {**batch, "obs": learned, "next_obs": following}

    def _draw(self, batch: dict[str, Any]) -> Tensor:
        """Return standard normal numbers `[U, B, D]`."""
        size = (self._cfg.unroll_len, len(batch["index"]), batch["action"].shape[-1])
        return torch.randn(size, dtype=self._dtype, device=self._device)

    def _priority(self, error_UB: Tensor) -> Tensor:
        """Return the priorities `[B]` of sequences."""
        return torch.lerp(error_UB.mean(0), error_UB.amax(0), self._cfg.learn.priority_eta)

    # Acting. The states of the environments that collect and of those that evaluate are kept apart.

    def _init_collect(self) -> None:
        super()._init_collect()
        self._collect_state = EpisodeState(self._to_device)

    def _init_eval(self) -> None:
        self._eval_state = EpisodeState(self._to_device)

    def _remember(self, state: EpisodeState, obs: Any) -> dict[str, Any]:
        """Return the actor's output for observations `[N, ...]`, and the states before the step."""
        return state.act(partial(self._run, self._model, mode="compute_actor"), obs)

    def _reset_collect(self, env_id: np.ndarray | None = None) -> None:
        super()._reset_collect(env_id)
        self._collect_state.reset(env_id)

    def _reset_eval(self, env_id: np.ndarray | None = None) -> None:
        self._eval_state.reset(env_id)

    def _state_dict_collect(self) -> dict[str, Any]:
        return super()._state_dict_collect() | self._collect_state.state_dict()

    def _load_state_dict_collect(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_collect(state)
        self._collect_state.load_state_dict(state)


@POLICY_REGISTRY.register("recurrent_sac")
class RecurrentSACPolicy(RecurrentPolicy, SACPolicy):
    """SAC with memories. Override `_critic_loss` or `_actor_loss` to change the objective."""

    config: ClassVar[dict[str, Any]] = merge_keys(SEQUENCE_KEYS, dict(type="recurrent_sac"))

    def _draw_noise(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        return {name: self._draw(batch) for name in ("next", "actor")}

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        return self._sample(self._remember(self._collect_state, obs))

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> dict[str, Any]:
        output = self._remember(self._eval_state, obs)
        return output | {"action": output["logit"]["mu"].tanh()}


@POLICY_REGISTRY.register("recurrent_td3")
class RecurrentTD3Policy(RecurrentPolicy, DDPGPolicy):
    """TD3 with memories. Override `_critic_loss` or `_actor_loss` to change the objective."""

    config: ClassVar[dict[str, Any]] = merge_keys(TD3_KEYS, SEQUENCE_KEYS, dict(type="recurrent_td3"))

    def _draw_noise(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        return {"target": self._draw(batch)} if self._cfg.learn.noise else {}

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        output = self._remember(self._collect_state, obs)
        return output | {"action": self._explore(output["action"])}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> dict[str, Any]:
        return self._remember(self._eval_state, obs)

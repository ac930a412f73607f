"""Recurrent Q-learning from prioritised sequences, after R2D2 (Kapturowski et al. 2019, openreview.net/r1lyTjAqYX).

When it acts, the network carries a state through each episode. The state before a step is stored with the step.
Learning starts a sequence from its stored state, runs the first `burnin_step` steps only to bring that up to date, and
learns from the others, with n-step double Q-learning:

    y_t = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) Q'(s_{t+n}, argmax_a Q(s_{t+n}, a))
    L = mean over samples of weight * mean over steps of (y_t - Q(s_t, a_t))^2
    priority = eta max_t |y_t - Q(s_t, a_t)| + (1 - eta) mean_t |y_t - Q(s_t, a_t)|

Unlike the paper: no rescaling of values.

Shapes: T rows of a sequence, U steps to learn from, B sequences, N environments, A actions, H features of the state,
K episodes truncated inside sequences.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn

from ding_lite.policy import DQNPolicy
from ding_lite.rl_utils import epsilon_greedy
from ding_lite.utils import ENV_REGISTRY, MODEL_REGISTRY, POLICY_REGISTRY, ConfigError


@ENV_REGISTRY.register("recall")
class Recall(gymnasium.Env):
    """A cue is shown at the first step; at the last one, the action that repeats it is worth 1, the other -1.

    The observation is the cue (-1 or 1; 0 later), and whether this is the last step. Nobody without a memory gets more
    than 0 in the mean.
    """

    config = dict(
        length=5,  # (int) env steps of an episode
        truncates=False,  # (bool) the episode is truncated after its last step, instead of terminated
    )

    def __init__(self, cfg: Any) -> None:
        self._length, self._truncates = cfg.length, cfg.truncates
        self.observation_space = Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._step, self._cue = 0, int(self.np_random.integers(2))
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._step += 1
        over = self._step == self._length
        reward = (1.0 if action == self._cue else -1.0) if over else 0.0
        return self._observe(), reward, over and not self._truncates, over and self._truncates, {}

    def _observe(self) -> np.ndarray:
        cue = 2.0 * self._cue - 1.0 if self._step == 0 else 0.0
        return np.array([cue, self._step == self._length - 1], np.float32)


@MODEL_REGISTRY.register("recurrent_q")
class RecurrentQ(nn.Module):
    """A GRU between an encoder and the Q-values.

    Args:
        obs_shape: length of the observation.
        action_shape: A.
        hidden_size: H.
    """

    def __init__(self, obs_shape: int, action_shape: int, hidden_size: int = 32) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.encoder = nn.Sequential(nn.Linear(obs_shape, hidden_size), nn.ReLU())
        self.cell = nn.GRUCell(hidden_size, hidden_size)
        self.head = nn.Linear(hidden_size, action_shape)

    def forward(self, obs_TB: Tensor, state_BH: Tensor, episode_start_TB: Tensor | None = None) -> dict[str, Tensor]:
        """Run through T rows of observations `[T, B, ...]`.

        Args:
            obs_TB: the observations.
            state_BH: the state before the first row.
            episode_start_TB: where the state is set to zero before the row; None: nowhere.

        Returns:
            `logit` `[T, B, A]`, the Q-values, and `state` `[T, B, H]` after each row.
        """
        x_TBH, states = self.encoder(obs_TB), []
        for t, x_BH in enumerate(x_TBH):
            if episode_start_TB is not None:
                state_BH = state_BH.masked_fill(episode_start_TB[t, :, None], 0.0)
            state_BH = self.cell(x_BH, state_BH)
            states.append(state_BH)
        state_TBH = torch.stack(states)
        return {"logit": self.head(state_TBH), "state": state_TBH}


@POLICY_REGISTRY.register("recurrent_dqn")
class RecurrentDQNPolicy(DQNPolicy):
    """DQN's loop, target, schedules and exploration, with a memory; see the module."""

    config = dict(
        type="recurrent_dqn",  # (str) name in the policy registry
        unroll_len=8,  # (int) env steps of a sequence to learn from: n_sample and batch_size count sequences
        burnin_step=2,  # (int) env steps before these that only bring the state up to date
        learn=dict(
            priority_eta=0.9,  # (float) share of the greatest error in a sequence's priority, beside the mean
        ),
    )
    config_without = ("double",)  # always
    _model: RecurrentQ

    @classmethod
    def check_config(cls, cfg: Any) -> None:
        super().check_config(cfg)
        if cfg.policy.precision != "float32":
            raise ConfigError(f"A recurrent state needs policy.precision='float32', got '{cfg.policy.precision}'.")
        if cfg.policy.burnin_step < 0:
            raise ConfigError(f"policy.burnin_step: expected 0 or more, got {cfg.policy.burnin_step}.")

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "recurrent_q", ["tests.seams.recurrent_q"]

    # Learning.

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        learned = slice(self._cfg.burnin_step, len(batch["reward"]))  # the other rows burn in, or end n-step sums
        q_TBA, next_q_TBA = self._unroll(self._model, batch)
        action_UB = batch["action"][learned]
        q_UB = q_TBA[: len(action_UB)].gather(-1, action_UB[..., None]).squeeze(-1)
        with torch.no_grad():
            _, target_q_TBA = self._unroll(self._target_model, batch)
            next_q_TB = target_q_TBA.gather(-1, next_q_TBA.argmax(-1, keepdim=True)).squeeze(-1)
            next_q_UB = next_q_TB.gather(0, batch["last_step"][learned] - learned.start)  # after the n steps
            bootstrap_UB = batch["value_gamma"][learned] * next_q_UB.masked_fill(batch["done"][learned], 0.0)
            target_UB = batch["reward"][learned] + bootstrap_UB
        error_UB = target_UB - q_UB
        size_UB = error_UB.detach().abs()
        priority_B = torch.lerp(size_UB.mean(0), size_UB.amax(0), self._cfg.learn.priority_eta)
        weight_B = batch["weight"] if self._cfg.priority_IS_weight else torch.ones_like(priority_B)
        loss = (weight_B * error_UB.square()).mean()
        return loss, {"priority": priority_B, "q_value": q_UB.detach()}

    def _unroll(self, network: nn.Module, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Return Q(s_t, .) and Q(s_{t+1}, .), the latter detached, `[T - burnin_step, B, A]`, of rows after burn-in."""
        burnin = self._cfg.burnin_step
        obs = self._to_device(torch.cat([batch["obs"], batch["last_obs"][None]]))
        start = torch.cat([batch["episode_start"], torch.zeros_like(batch["episode_start"][:1])])
        state = self._to_device(batch["prev_state"])
        if burnin:
            with torch.no_grad():
                state = network(obs[:burnin], state, start[:burnin])["state"][-1]
        output = network(obs[burnin:], state, start[burnin:])
        next_q = output["logit"][1:].detach().clone()
        if "final_index" in batch:  # rows whose successor is not the next row, but where a time limit cut
            place_K = batch["final_index"] - burnin * obs.shape[1]
            mine = place_K >= 0
            state = output["state"].flatten(0, 1)[place_K[mine]]
            with torch.no_grad():
                final = network(self._to_device(batch["final_obs"][mine])[None], state)
            next_q.flatten(0, 1)[place_K[mine]] = final["logit"][0]
        return output["logit"][:-1], next_q

    # Acting. The states of environments that collect and of those that evaluate are kept apart.

    def _init_collect(self) -> None:
        super()._init_collect()
        self._collect_state: Tensor | None = None

    def _init_eval(self) -> None:
        self._eval_state: Tensor | None = None

    @torch.no_grad()
    def _forward_collect(self, obs: Any, eps: float = 0.0, **kwargs: Any) -> dict[str, Tensor]:
        before = self._begin(obs) if self._collect_state is None else self._collect_state
        logit, self._collect_state = self._advance(obs, before)
        return {"action": epsilon_greedy(logit, eps), "prev_state": before}

    @torch.no_grad()
    def _forward_eval(self, obs: Any) -> dict[str, Tensor]:
        before = self._begin(obs) if self._eval_state is None else self._eval_state
        logit, self._eval_state = self._advance(obs, before)
        return {"action": logit.argmax(-1)}

    def _begin(self, obs: np.ndarray) -> Tensor:
        return torch.zeros(len(obs), self._model.hidden_size, dtype=self._dtype, device=self._device)

    def _advance(self, obs: np.ndarray, state_NH: Tensor) -> tuple[Tensor, Tensor]:
        """Return Q-values `[N, A]` and the state `[N, H]` after observations `[N, ...]`."""
        output = self._model(self._to_device(obs)[None], state_NH)
        return output["logit"][0], output["state"][0]

    def _process_transition(
        self, obs: Any, policy_output: dict[str, Tensor], timestep: SimpleNamespace
    ) -> dict[str, Any]:
        row = super()._process_transition(obs, policy_output, timestep)
        return row | {"prev_state": policy_output["prev_state"]}  # replay returns that of a sequence's first row

    def _reset_collect(self, env_id: np.ndarray | None = None) -> None:
        self._collect_state = forget(self._collect_state, env_id)

    def _reset_eval(self, env_id: np.ndarray | None = None) -> None:
        self._eval_state = forget(self._eval_state, env_id)

    def _state_dict_collect(self) -> dict[str, Any]:
        return {"state": self._collect_state}

    def _load_state_dict_collect(self, state: dict[str, Any]) -> None:
        state_NH = state["state"]
        self._collect_state = None if state_NH is None else self._to_device(state_NH)


def forget(state_NH: Tensor | None, env_id: np.ndarray | None) -> Tensor | None:
    """Return the states with those of some environments set to zero; None, which means zeros, for all of them."""
    if state_NH is None or env_id is None:
        return None
    return state_NH.index_fill(0, torch.as_tensor(env_id, device=state_NH.device), 0.0)


main_config = dict(
    exp_name="recurrent_q",
    env=dict(length=5, collector_env_num=4, evaluator_env_num=4, n_evaluator_episode=32),
    policy=dict(
        multi_gpu=True,
        num_threads=1,
        priority=True,
        priority_IS_weight=True,
        discount_factor=0.95,
        nstep=3,
        unroll_len=8,
        burnin_step=2,
        learn=dict(update_per_collect=4, batch_size=16, learning_rate=0.003, target_theta=0.05),
        other=dict(eps=dict(start=1.0, end=0.1, decay=2000), replay_buffer=dict(replay_buffer_size=1000)),
    ),
)
create_config = dict(
    env=dict(type="recall", import_names=["tests.seams.recurrent_q"]),
    env_manager=dict(type="base"),
    policy=dict(type="recurrent_dqn", import_names=["tests.seams.recurrent_q"]),
)

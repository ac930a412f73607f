"""P-DQN, deep Q-learning for hybrid actions (Xiong et al. 2018, arXiv:1810.06394).

An action is a type k and continuous arguments x. One network returns the arguments x(s) of all types, another the
values Q(s, k, x):

    y = r + gamma (1 - done) Q'(s', k*, x(s')),  k* = argmax_k Q(s', k, x(s'))
    L_dis = mean w (y - Q(s, k, x))^2
    L_cont = -mean sum_k Q(s, k, x(s)),  whose gradient flows through x(s) only

Iterations alternate in cycles of `update_circle`: the first half of a cycle minimises L_dis and updates the target Q',
the second half minimises L_cont.

Shapes: B samples, N environments, K action types, D arguments.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import (
    EPSILON_KEYS,
    NOISE_SIGMA,
    REPLAY_KEYS,
    SOFT_TARGET_KEYS,
)
from ding_lite.rl_utils.common import bootstrapped, pick, weighted_mean
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("pdqn")
class PDQNPolicy(Policy):
    """P-DQN. Override `_dis_loss` or `_cont_loss` to change the objective."""

    key_groups = (REPLAY_KEYS, SOFT_TARGET_KEYS, EPSILON_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="pdqn",
        discount_factor=0.97,
        learn=dict(
            update_per_collect=3,
            learning_rate_dis=Key(0.001, "learning rate of the Adam of the types' values", low=0, high=10**6),
            learning_rate_cont=Key(0.001, "learning rate of the Adam of the arguments", low=0, high=10**6),
            update_circle=Key(10, "iterations of a cycle; its first half trains the values, the second x(s)", low=2),
        ),
        collect=dict(noise_sigma=NOISE_SIGMA),
        other=dict(
            replay_buffer=dict(
                replay_buffer_size=10000,
            ),
        ),
    )
    model_type = "pdqn"
    action_spaces = (gymnasium.spaces.Dict,)
    unit_actions = True
    _model: Any
    model_attributes = ("dis", "cont")
    logged_figures = ("q_value", "td_error", "epsilon")

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._add_optimizer("dis", self._model.dis, learn.learning_rate_dis)
        self._add_optimizer("cont", self._model.cont, learn.learning_rate_cont)
        self._target_dis = self._add_target("dis")

    def _dis_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_dis and detached figures, for a batch as `_prepare` returns it."""
        with torch.no_grad():
            args_BD = self._run(self._model.cont, batch["next_obs"])
            target_q_BK = self._run(self._target_dis, batch["next_obs"], action_args=args_BD)
            next_type_B = self._run(self._model.dis, batch["next_obs"], action_args=args_BD).argmax(-1)
        q_BK = self._run(self._model.dis, batch["obs"], action_args=batch["action"]["action_args"])
        with torch.no_grad():
            target_B = bootstrapped(batch, pick(target_q_BK, next_type_B))
        error_B = target_B - pick(q_BK, batch["action"]["action_type"])
        loss = weighted_mean(error_B.square(), batch.get("weight"))
        error_B = error_B.detach().abs()
        return loss, {"priority": error_B, "td_error": error_B, "q_value": q_BK.detach()}

    def _cont_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        args_BD = self._run(self._model.cont, batch["obs"])
        q_BK = self._run_frozen(self._model.dis, batch["obs"], action_args=args_BD)
        return -q_BK.sum(-1).mean(), {"q_value": q_BK.detach()}

    def _forward_learn(self, batch: Batch) -> Figures:
        iterations, circle = sum(step.steps for step in self._optimizers.values()), self._cfg.learn.update_circle
        if 2 * (iterations % circle) >= circle:
            return self._optimizers["cont"].step(self._cont_loss, batch)
        output = self._optimizers["dis"].step(self._dis_loss, batch)
        self._update_targets()
        return output

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, eps: float = 0.0, **kwargs: Any) -> Output:
        """Choose the best action with noise on its arguments, or with probability `eps` a uniformly random one."""
        output = self._forward_eval(obs)
        type_N, args_ND = output["action"]["action_type"], output["action"]["action_args"]
        noisy_ND = (args_ND + self._cfg.collect.noise_sigma * torch.randn_like(args_ND)).clamp(-1.0, 1.0)
        random_N1 = torch.rand(len(type_N), 1, device=type_N.device) < eps
        random_type_N = torch.randint(output["logit"].shape[-1], type_N.shape, device=type_N.device)
        action_type = torch.where(random_N1.squeeze(1), random_type_N, type_N)
        action_args = torch.where(random_N1, torch.rand_like(args_ND) * 2.0 - 1.0, noisy_ND)
        return output | {"action": {"action_type": action_type, "action_args": action_args}}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        obs = self._to_device(obs)
        args_ND = self._run(self._model, obs, mode="compute_continuous")["action_args"]
        logit_NK = self._run(self._model, {"state": obs, "action_args": args_ND}, mode="compute_discrete")["logit"]
        return {"logit": logit_NK, "action": {"action_type": logit_NK.argmax(-1), "action_args": args_ND}}

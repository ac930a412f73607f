"""DDPG with hybrid actions, PADDPG (Hausknecht & Stone 2016, arXiv:1511.04143).

An action consists of a type k, one of K, and continuous arguments x of all types. The actor returns probabilities p(s)
of the types, which are the softmax of its logits, and arguments x(s). The critic takes the type as probabilities too:
those of a type k that was played are e_k, which is 1 at k and 0 elsewhere.

    y = r + g (1 - done) min_c Q'_c(s', e_k', x'),  k' = argmax p'(s'),  x' = x'(s')
    L_critic = sum_c mean w (y - Q_c(s, e_k, x))^2
    L_actor = -mean Q_1(s, p(s), x(s))

The gradient of L_actor flows through p(s) to the logits and through x(s) to the arguments. The other symbols are those
of `policy/continuous/ddpg.py`. With `learn.noise`, x' has the same noise as a' there.

For exploration, the type is uniformly random with probability epsilon, and noise is added to the arguments.

Shapes: B samples, N environments, K action types, D arguments.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor

from ding_lite.policy.common_keys import EPSILON_KEYS, REPLAY_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS
from ding_lite.policy.continuous.ddpg import DDPGPolicy
from ding_lite.rl_utils.exploration import epsilon_greedy
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("paddpg")
class PADDPGPolicy(DDPGPolicy):
    """DDPG with hybrid actions. A config selects it by 'paddpg', or as in DI-engine by 'ddpg' with `action_space`."""

    key_groups = (REPLAY_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS, EPSILON_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="paddpg",
        model=dict(
            action_space=Key("hybrid", "what the actor returns: a type and its arguments", choices=("hybrid",)),
        ),
        other=dict(eps=dict(start=1.0)),
    )
    model_type = "hybrid_qac"
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Dict,)
    logged_figures = (*DDPGPolicy.logged_figures, "epsilon")

    def _draw_noise(self, batch: Batch) -> dict[str, Tensor]:
        return super()._draw_noise({"action": batch["action"]["action_args"]})

    def _target_action(self, batch: Batch) -> dict[str, Tensor]:
        """Return the greedy type `[B]` and the arguments `[B, D]` whose value the critics bootstrap from."""
        action = self._run(self._target_actor, batch["next_obs"])
        args_BD = self._smooth(action["action_args"], batch)
        return {"action_type": action["action_type"].argmax(-1), "action_args": args_BD}

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        action = self._run(self._model.actor, batch["obs"])
        action["action_type"] = action["action_type"].softmax(-1)
        return -self._run_frozen(self._model.critic, batch["obs"], action=action)[0].mean(), {}

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, eps: float = 0.0, **kwargs: Any) -> Output:
        """Choose the best type, or with probability `eps` a uniformly random one, and arguments with noise."""
        output = self._forward_eval(obs)
        action_args = self._explore(output["action"]["action_args"])
        return output | {"action": {"action_type": epsilon_greedy(output["logit"], eps), "action_args": action_args}}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        output = self._run(self._model, obs, mode="compute_actor")
        action = {"action_type": output["logit"].argmax(-1), "action_args": output["action_args"]}
        return {"logit": output["logit"], "action": action}

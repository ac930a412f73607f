"""Deep Q-learning, DQN (Mnih et al. 2015, doi:10.1038/nature14236).

The network learns to predict the discounted return Q(s, a) of every action. The loss is the mean over the batch of

    (Q(s_t, a_t) - y_t)^2,   y_t = r_t + g r_{t+1} + ... + g^{n-1} r_{t+n-1} + g^n Q'(s_{t+n}, a*),

with discount g and target network Q'. a* is the action with the largest Q(s_{t+n}, .) (double Q-learning, van Hasselt
et al. 2016, arXiv:1509.06461) or, with `double=False`, the largest Q'(s_{t+n}, .). If the episode terminates within the
n steps, the sum ends there and the last term is 0.

Prioritised replay, dueling networks (`model.dueling`) and noisy networks (`noisy_net`) are options.

Shapes: B samples in a batch, N environments, A actions.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.model.masks import average_allowed
from ding_lite.model.noisy import check_noisy, draw_noise, request_noise
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import (
    AGENT_KEYS,
    DOUBLE_KEYS,
    DQN_KEYS,
    LEARNING_RATE_KEYS,
    NOISY_KEYS,
    SPREAD_KEYS,
)
from ding_lite.rl_utils.common import bootstrapped, pick, weighted_mean
from ding_lite.rl_utils.exploration import epsilon_greedy, spread_epsilon
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Groups, Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError


@POLICY_REGISTRY.register("dqn")
class DQNPolicy(Policy):
    """DQN with epsilon-greedy or noisy exploration. Override `_loss` to change the objective."""

    key_groups: ClassVar[Groups] = (DQN_KEYS, LEARNING_RATE_KEYS, SPREAD_KEYS, DOUBLE_KEYS, NOISY_KEYS, AGENT_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="dqn",
        nstep=3,
        learn=dict(update_per_collect=Key(3, "learner iterations after each collect", low=1)),
        eval=dict(eps=Key(0.0, "share of random actions in evaluations; every result names it", low=0, high=1)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=10000),
        ),
    )
    model_type = "dqn"
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Discrete,)
    forward_passes: ClassVar[tuple[str, ...]] = ("online", "target", "chooser")  # of a loss, each with its own noise
    logged_figures: ClassVar[tuple[str, ...]] = ("q_value", "epsilon")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        """Check the policy's values against each other, see `Policy.check_config`."""
        super().check_config(cfg)
        model, noisy = cfg.policy.model, cfg.policy.get("noisy_net", False)  # a subclass may lack the key
        if model.get("noise", noisy) != noisy:
            raise ConfigError("policy.model.noise contradicts policy.noisy_net: set only policy.noisy_net.")

    def _create_model(self) -> torch.nn.Module:
        request_noise(self._cfg, self.default_model()[0])
        return super()._create_model()

    def _init_learn(self) -> None:
        super()._init_learn()
        self._target_model = self._add_target("model")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss, and the detached tensors `priority` `[B]`, the absolute errors, and `q_value` `[B, A]`.

        Args:
            batch: `obs`, `next_obs`, `action`; `reward`, the discounted sum over n steps; `done`; `value_gamma`, the
                discount g^n of the bootstrap; `weight`, the importance weights, with `priority_IS_weight`.
        """
        online = self._run(self._model, batch["obs"], layer_noise=batch["noise"].get("online"))
        q_B = pick(online["logit"], batch["action"])
        with torch.no_grad():
            target, next_action_B = self._next_outputs(batch)
            target_B = bootstrapped(batch, pick(target["logit"], next_action_B))  # replay has summed n rewards
        error_B = target_B - q_B
        loss = weighted_mean(error_B.square(), batch.get("weight"))
        return loss, {"priority": error_B.detach().abs(), "q_value": online["logit"].detach()}

    @torch.no_grad()
    def _next_outputs(self, batch: Batch, **kwargs: Any) -> tuple[dict[str, Tensor], Tensor]:
        """Return the target network's output for `next_obs`, and the next actions `[B]`; neither has a gradient.

        The next actions are those with the largest values in the online network (double Q-learning) or, with
        `double=False`, in the target network.

        Args:
            batch: see `_loss`.
            **kwargs: further arguments of the target network; the actions are chosen without them.
        """
        obs, noise = batch["next_obs"], batch["noise"]
        target = chooser = self._run(self._target_model, obs, layer_noise=noise.get("target"), **kwargs)
        if self._cfg.double or kwargs:
            network = self._model if self._cfg.double else self._target_model
            chooser = self._run(network, obs, layer_noise=noise.get("chooser"))
        return target, chooser["logit"].argmax(-1)

    def _draw_noise(self, batch: Batch) -> dict[str, Any]:
        names = self.forward_passes if self._cfg.get("noisy_net") else ()
        return {name: draw_noise(self._model, len(batch["action"])) for name in names}

    def _forward_learn(self, batch: Batch) -> Figures:
        output = self._optimizer.step(self._loss, batch)
        self._update_targets()
        return average_allowed(output, batch["obs"])

    def _init_collect(self) -> None:
        check_noisy(self._cfg, self._model)

    def _begin_collect(self, envstep: int) -> dict[str, Any]:
        return {"eps": 0.0} if self._cfg.get("noisy_net") else super()._begin_collect(envstep)

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, eps: float = 0.0, **kwargs: Any) -> Output:
        output = self._run(self._model, obs, explore=True)
        spread = self._cfg.other.get("eps", {}).get("spread", 0.0)
        epsilon = spread_epsilon(eps, spread, len(output["logit"]), *self.env_place)
        return output | {"action": self._choose(output["logit"], epsilon)}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        output = self._run(self._model, obs, explore=False)
        return output | {"action": self._choose(output["logit"], self._cfg.eval.eps, self._eval_random)}

    def _choose(self, logit: Tensor, epsilon: float | Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the best actions `[N]`, or random ones with probability epsilon, for values `[N, A]`."""
        return epsilon_greedy(logit, epsilon, generator=generator)

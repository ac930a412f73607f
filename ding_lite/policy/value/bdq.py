"""Branching dueling Q-learning, BDQ (Tavakoli et al. 2018, arXiv:1711.08946), for actions of several discrete choices.

An action consists of one choice for each branch, a = (a_1, ..., a_D). The network learns a Q-function for every branch;
the branches share an encoder and the state value, so the size of its output grows with the sum of the branches'
options, not with their product. The loss is the mean over the batch and over the branches d of

    (Q_d(s_t, a_{t,d}) - y)^2,   y = r_t + g r_{t+1} + ... + g^{n-1} r_{t+n-1} + g^n mean_d Q'_d(s_{t+n}, a*_d)

with discount g and target network Q'. a*_d is the option with the largest Q_d(s_{t+n}, .), or, with `double=False`, the
largest Q'_d(s_{t+n}, .). With `learn.mean_target=False`, the mean is left out, and each branch has its own target.

Each branch explores independently, with probability epsilon. The rest is DQN's, see `dqn.py`.

Shapes: B samples, N environments, D branches, A options of the largest branch.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor

from ding_lite.model.noisy import Noise
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import bootstrapped, pick, weighted_mean
from ding_lite.rl_utils.exploration import epsilon_greedy
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("bdq")
class BDQPolicy(DQNPolicy):
    """BDQ. A single choice, `Discrete`, is an action with one branch. Override `_loss` to change the objective."""

    config: ClassVar[dict[str, Any]] = dict(
        type="bdq",
        nstep=1,
        learn=dict(
            mean_target=Key(True, "the branches learn towards the mean of their targets; False: each towards its own"),
        ),
    )
    model_type = "bdq"
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.MultiDiscrete, gymnasium.spaces.Discrete)

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures; `action` is `[B, D]`, or `[B]` if it is a single choice."""
        action_BD = batch["action"].reshape(len(batch["action"]), -1)
        noise = batch["noise"]
        q_BDA = self._branches(self._model, batch["obs"], noise.get("online"))
        with torch.no_grad():
            target_q_BDA = chooser_BDA = self._branches(self._target_model, batch["next_obs"], noise.get("target"))
            if self._cfg.double:
                chooser_BDA = self._branches(self._model, batch["next_obs"], noise.get("chooser"))
            next_q_DB = pick(target_q_BDA, chooser_BDA.argmax(-1)).t()
            if self._cfg.learn.mean_target:  # the branches have a common target
                next_q_DB = next_q_DB.mean(0).expand_as(next_q_DB)
            target_DB = bootstrapped(batch, next_q_DB)
        q_BD = pick(q_BDA, action_BD)
        error_DB = target_DB - q_BD.t()
        loss = weighted_mean(error_DB.square().mean(0), batch.get("weight"))
        return loss, {"priority": error_DB.detach().abs().mean(0), "q_value": q_BD.detach()}

    def _branches(self, network: torch.nn.Module, obs: Any, noise: Noise | None) -> Tensor:
        """Return the values of all branches, `[B, D, A]`, with this noise of the noisy layers."""
        logit: Tensor = self._run(network, obs, layer_noise=noise)["logit"]
        return logit.unsqueeze(1) if logit.ndim == 2 else logit

    def _choose(self, logit: Tensor, epsilon: float | Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the options of all branches, for values `[N, D, A]`; options that a branch lacks are never chosen."""
        return epsilon_greedy(logit, epsilon, ~torch.isneginf(logit), generator)

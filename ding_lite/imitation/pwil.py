"""Primal Wasserstein imitation learning, PWIL (Dadashi et al. 2021, arXiv:2006.04678): rewards by a coupling.

Nothing is learned. The D steps of an expert, its atoms, weigh 1 / D each, and the T steps of an episode 1 / T each.
Each step of the policy takes its weight from the nearest atoms of which something is left, and pays for the distance:

    c = sum_i w_i |x - x_i|,  r = alpha exp(-beta T c / sqrt(F))

where x are the F numbers of (s, a), divided by their deviations over the data. The next episode finds all atoms whole.

Shapes: T steps, N environments, D atoms, F numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium.spaces import Box
from torch import Tensor

from ding_lite.imitation.adversarial import StepEncoder
from ding_lite.imitation.expert import EXPERT_KEYS, read_expert
from ding_lite.policy import Policy
from ding_lite.reward_model.base import RewardModel
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils.data import Batch, Block
from ding_lite.utils.key import Key
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY, ConfigError
from ding_lite.worker import ReplayBuffer


@REWARD_MODEL_REGISTRY.register("pwil")
class PwilRewardModel(RewardModel):
    """PWIL, see the module. What is left of the atoms is the state of each running episode."""

    config = dict(
        type="pwil",
        **EXPERT_KEYS,
        sample_size=Key(1000, "D, at most: steps of the expert, spread evenly over the data", low=1),
        horizon=Key(None, "T, steps of an episode; None: those of the expert's longest one", type=int, low=1),
        alpha=Key(5.0, "largest reward", above=0),
        beta=Key(5.0, "how fast rewards fall with the distance", low=0),
    )

    def _init_networks(self) -> None:
        if not isinstance(self._observation_space, Box) or len(self._observation_space.shape) != 1:
            raise ConfigError(
                f"reward_model.type 'pwil' compares vectors, but an observation is {self._observation_space}."
            )
        self._encoder = StepEncoder(self._observation_space, self._action_space, []).to(self._device)
        self._left_ND: Tensor | None = None  # of atoms, in the running episodes

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        """Read the expert's data set."""
        if policy.multi_agent or setup.cfg.policy.collect.get("actors"):
            raise ConfigError("reward_model.type 'pwil' follows episodes of a single agent that a rank plays itself.")
        expert = read_expert(setup, ("obs", "action", "reward", "done"))
        length_E, _ = expert.trajectories()
        self._horizon = self._cfg.horizon or int(length_E.max())
        x_RF = self._features(expert.gather(torch.arange(len(expert))))
        self._deviation_F = x_RF.std(0).clamp(min=1e-6)
        row_D = torch.linspace(0, len(x_RF) - 1, min(self._cfg.sample_size, len(x_RF))).long()
        self._atom_DF = x_RF[row_D] / self._deviation_F

    def _features(self, steps: Batch) -> Tensor:
        """Return the numbers of steps `[M, ...]`, `[M, F]`."""
        steps = self._to_device({key: steps[key] for key in ("obs", "action")})
        x_MF: Tensor = self._encoder(steps["obs"], self._encoder.encode_action(steps["action"]))
        return x_MF.float()

    def relabel(self, block: Block) -> dict[str, Any]:
        reward_TN, cfg = torch.empty(block["reward"].shape), self._cfg
        obs, action = block["obs"], block["action"]
        for t, first_N in enumerate(block["episode_step"].to(self._device) == 0):
            x_NF = self._features({"obs": obs[t], "action": action[t]}) / self._deviation_F
            cost_N, taken_N = self._couple(x_NF, first_N)
            rate = cfg.beta * self._horizon / x_NF.shape[1] ** 0.5
            reward_TN[t] = cfg.alpha * (-rate * cost_N).exp() * taken_N * self._horizon
        return {**block, "reward": reward_TN}

    def _couple(self, x_NF: Tensor, first_N: Tensor) -> tuple[Tensor, Tensor]:
        """Take the weight of a step from the nearest atoms; return c and the weight, both `[N]`.

        The weight is 1 / T, or what is left, which is nothing if an episode is longer than T.
        """
        num_envs, num_atoms = len(x_NF), len(self._atom_DF)
        if self._left_ND is None or len(self._left_ND) != num_envs:
            self._left_ND = x_NF.new_zeros(num_envs, num_atoms, dtype=torch.float64)
        self._left_ND[first_N] = 1.0 / num_atoms
        distance_ND, order_ND = torch.cdist(x_NF, self._atom_DF).sort(1)
        left_ND = self._left_ND.gather(1, order_ND)
        nearer_ND = left_ND.cumsum(1) - left_ND  # what nearer atoms have left
        taken_ND = (1.0 / self._horizon - nearer_ND).clamp(min=0.0).minimum(left_ND)
        self._left_ND.scatter_(1, order_ND, left_ND - taken_ND)
        return (taken_ND * distance_ND).sum(1).float(), taken_ND.sum(1).float()

    def local_state_dict(self) -> dict[str, Any]:
        return super().local_state_dict() | ({} if self._left_ND is None else {"left": self._left_ND})

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        super().load_local_state_dict(state)
        self._left_ND = state.get("left")

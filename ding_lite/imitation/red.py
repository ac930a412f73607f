"""Random expert distillation, RED (Wang et al. 2019, arXiv:1905.06750): pays for steps that look like the expert's.

A predictor learns, from an expert's data set alone, what a fixed random network says of its steps. Where it errs, the
expert has not been:

    r(s, a) = exp(-sigma e(s, a)),  e(s, a) = mean_F (predictor(s, a) - target(s, a))^2

The predictor learns after the first collect, and rewards stay the same from then on.

Shapes: M steps, F features.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.imitation.adversarial import StepEncoder, draw
from ding_lite.imitation.expert import EXPERT_KEYS, read_expert
from ding_lite.model.mlp import MLP
from ding_lite.policy import Policy
from ding_lite.reward_model.base import RewardModel
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.utils.key import Key
from ding_lite.utils.ranks.collectives import get_rank
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY
from ding_lite.utils.tree import tree_map
from ding_lite.worker import ReplayBuffer

EXPERT_QUANTILE, EXPERT_REWARD = 0.95, 0.9  # without a sigma, so many of the expert's steps get this reward or more


class StepFeatures(nn.Module):
    """Maps observations and encoded actions to features `[M, F]`."""

    def __init__(self, encoder: StepEncoder, hidden_size_list: list[int]) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = MLP([encoder.size, *hidden_size_list], "tanh", output=True)

    def forward(self, obs: Any, action: Tensor) -> Tensor:
        features: Tensor = self.head(self.encoder(obs, action))
        return features


@REWARD_MODEL_REGISTRY.register("red")
class RedRewardModel(RewardModel):
    """RED, see the module. Observations are normalised by the mean and deviation of the expert's."""

    config = dict(
        type="red",
        **EXPERT_KEYS,
        learning_rate=1e-3,
        hidden_size_list=Key([128, 128, 64], "layers of both networks, with tanh; the last one is F", low=1),
        encoder_hidden_size_list=Key([128, 128, 64], "layers of the encoder, if an observation has images", low=1),
        batch_size=Key(64, "steps of the expert per rank and update", low=1),
        update_per_collect=Key(2000, "updates after the first collect; there are none later", low=1),
        sigma=Key(
            None,
            f"how fast the reward falls; None: {EXPERT_QUANTILE:.0%} of the expert's steps get {EXPERT_REWARD} or more",
            type=float,
            above=0,
            constant="rewards stay the same",
        ),
    )

    def _init_networks(self) -> None:
        self._target, self._predictor = (self._create_network() for _ in range(2))
        self._normalizer = Normalizer(self._observation_space, None).to(self._device)
        self._optimizer = self._add_optimizer("predictor", self._predictor)
        self._sigma = self._cfg.sigma or 0.0

    def _create_network(self) -> StepFeatures:
        encoder = StepEncoder(self._observation_space, self._action_space, self._cfg.encoder_hidden_size_list)
        return StepFeatures(encoder, self._cfg.hidden_size_list).to(self._device)

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        """Read the expert's data set."""
        expert = read_expert(setup, ("obs", "action"))
        self._normalizer.fit(expert.observations())
        columns = expert.gather(torch.arange(len(expert)))
        self._expert = self._ready({key: columns[key] for key in ("obs", "action")})

    def _ready(self, steps: Batch) -> dict[str, Any]:
        """Return normalised observations and encoded actions of steps `[M, ...]`."""
        steps = self._to_device(steps)
        action_MA = self._target.encoder.encode_action(steps["action"])
        return {"obs": self._normalizer.normalize_obs(steps["obs"]), "action": action_MA}

    def _error(self, steps: Batch) -> Tensor:
        """Return e `[M]` of steps that are `_ready`."""
        with torch.no_grad():
            target_MF = self._target(**steps)
        return (self._predictor(**steps) - target_MF).square().mean(1)

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        return self._error(batch).mean(), {}

    def train(self, block: Block) -> dict[str, Tensor]:
        if self._optimizer.steps:
            return {}
        generator, figures = torch.Generator().manual_seed(get_rank()), dict[str, Tensor]()
        for _ in range(self._cfg.update_per_collect):
            heartbeat("learn")
            figures = self._optimizer.step(self._loss, draw(self._expert, self._cfg.batch_size, generator))
        if self._cfg.sigma is None:
            with torch.no_grad():
                largest = self._error(self._expert).quantile(EXPERT_QUANTILE)
            self._sigma = -float(torch.tensor(EXPERT_REWARD).log()) / max(float(largest), 1e-12)
        return {"predictor_loss": figures["predictor_loss"]}

    def relabel(self, block: Block) -> dict[str, Any]:
        steps = tree_map(lambda leaf: leaf.flatten(0, 1), {key: block[key] for key in ("obs", "action")})
        reward_M = (-self._sigma * self._error(self._ready(steps))).exp()
        return {**block, "reward": reward_M.view(block["reward"].shape).to(block["reward"].device)}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"sigma": self._sigma}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._sigma = state["sigma"]

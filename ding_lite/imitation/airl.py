"""Adversarial inverse reinforcement learning, AIRL (Fu et al. 2018, arXiv:1710.11248).

A discriminator whose logit is f - log pi, so that f is a reward under which the expert is a soft optimum:

    D = exp f / (exp f + pi(a | s)),  f = g(s, a) + gamma h(s') - h(s),  h(s') = 0 after an end

g is a reward, h a shaping potential, pi the policy of now. It gets log D - log(1 - D) = f - log pi(a | s), which has
an entropy bonus; or f, if its algorithm adds that bonus itself, as SAC does.

Shapes: M steps, B samples, F features.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.imitation.adversarial import AdversarialRewardModel
from ding_lite.imitation.density import check_density, log_density
from ding_lite.model.mlp import MLP
from ding_lite.policy import Policy
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.torch_utils.minibatch import next_obs
from ding_lite.utils.key import Key
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY
from ding_lite.utils.tree import tree_map
from ding_lite.worker import ReplayBuffer


@REWARD_MODEL_REGISTRY.register("airl")
class AirlRewardModel(AdversarialRewardModel):
    """AIRL, see the module."""

    config = dict(
        type="airl",
        entropy_weight=Key(1.0, "weight of -log pi in the reward: 1, as in the paper; 0 if the policy adds it", low=0),
        grad_penalty_weight=Key(10.0, "weight of the gradient penalty of f, see 'gail'; 0: none", low=0),
    )

    def _create_heads(self) -> list[nn.Module]:
        sizes = [self._encoder.size, *self._cfg.hidden_size_list, 1]
        self._reward, self._potential = (MLP(sizes, "tanh", output=True).to(self._device) for _ in range(2))
        self._columns = ("obs", "action", "done")
        return [self._reward, self._potential]

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        check_density(setup, policy)
        super().connect(setup, policy, replay)
        self._discount = setup.cfg.policy.discount_factor

    def _read(self, columns: Batch) -> dict[str, Any]:
        return self._to_device({key: columns[key] for key in (*self._columns, "next_obs")})

    def _steps_of(self, block: Block) -> dict[str, Any]:
        following = self._to_device(next_obs(block))
        return super()._steps_of(block) | {"next_obs": tree_map(lambda leaf: leaf.flatten(0, 1), following)}

    def _steps_at(self, place_M: Tensor) -> dict[str, Any]:
        return super()._steps_at(place_M) | {"next_obs": self._to_device(self._ring.successors(place_M))}

    def _ready(self, steps: Batch) -> dict[str, Any]:
        ready = super()._ready(steps)
        ready["next_obs"] = self._policy.normalizer.normalize_obs(steps["next_obs"])
        return ready | {"logp": log_density(self._policy, ready["obs"], steps["action"])}

    def _features(self, steps: Batch) -> Tensor:
        """Return the features of (s, a), s and s', `[3, M, F]`; the action of the last two is 0."""
        none_MA = torch.zeros_like(steps["action"])
        pairs = ((steps["obs"], steps["action"]), (steps["obs"], none_MA), (steps["next_obs"], none_MA))
        return torch.stack([self._encoder(obs, action_MA) for obs, action_MA in pairs])

    def _value(self, x_3MF: Tensor, goes_on_M: Tensor) -> Tensor:
        """Return f `[M]`."""
        g_M = self._reward(x_3MF[0]).squeeze(1)
        h_2M = self._potential(x_3MF[1:]).squeeze(2)
        return g_M + self._discount * goes_on_M * h_2M[1] - h_2M[0]

    def _f(self, steps: Batch) -> Tensor:
        return self._value(self._features(steps), (~steps["done"]).float())

    def _logits(self, steps: Batch) -> Tensor:
        return self._f(steps) - steps["logp"]

    def _complete(self, batch: Batch, generator: torch.Generator) -> Batch:
        place_B1 = torch.rand(self._cfg.batch_size, 1, generator=generator)
        return batch | {"place": place_B1.to(self._device)}

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        loss, figures = super()._loss(batch)
        if weight := self._cfg.grad_penalty_weight:
            own, expert = (self._features(batch[side]).detach() for side in ("own", "expert"))
            x_3BF = own.lerp(expert, batch["place"]).requires_grad_()
            f_B = self._value(x_3BF, torch.ones(len(batch["place"]), device=self._device))
            (slope_3BF,) = torch.autograd.grad(f_B.sum(), x_3BF, create_graph=True)
            penalty = (slope_3BF.square().sum((0, 2)).sqrt() - 1.0).square().mean()
            loss, figures = loss + weight * penalty, figures | {"grad_penalty": penalty.detach()}
        return loss, figures

    def _rewards(self, steps: Batch) -> Tensor:
        return self._f(steps) - self._cfg.entropy_weight * steps["logp"]

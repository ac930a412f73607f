"""Generative adversarial imitation learning, GAIL (Ho & Ermon 2016, arXiv:1606.03476).

Shapes: M steps, B samples, F features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.imitation.adversarial import AdversarialRewardModel
from ding_lite.model.mlp import MLP
from ding_lite.policy import Policy
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_map
from ding_lite.worker import ReplayBuffer

FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "positive": F.softplus,  # -log(1 - D)
    "negative": lambda f_M: -F.softplus(-f_M),  # log D
    "logit": lambda f_M: f_M,  # log D - log(1 - D)
}


@REWARD_MODEL_REGISTRY.register("gail")
class GailRewardModel(AdversarialRewardModel):
    """Pays for steps that the discriminator of `adversarial.py` takes for the expert's: r(f) is one of the `FORMS`.

    With `grad_penalty_weight` w, the loss has the term w mean (|grad f(x)| - 1)^2, at points x drawn uniformly between
    a step of the expert and one of the policy (Gulrajani et al. 2017, arXiv:1704.00028). Without it, f soon tells them
    apart, and no longer says which of the policy's steps are nearly right. Of images, x are the features.

    With `absorbing`, an episode that terminates is followed by an absorbing state a for ever (Kostrikov et al. 2019,
    arXiv:1809.02925). The discriminator learns r(a) from one such step after each end, of the policy's episodes and of
    the expert's, and the last reward becomes r(s, a) + g / (1 - g) r(a), with the policy's discount g. Otherwise, each
    further step pays if rewards are positive and costs if they are negative, whatever the expert does.
    """

    config = dict(
        type="gail",
        reward_form=Key(
            "positive",
            "the reward: 'positive', -log(1 - D), as DI-engine's; 'negative', log D; 'logit', the sum of both",
            choices=tuple(FORMS),
        ),
        grad_penalty_weight=Key(10.0, "w, weight of the gradient penalty; 0: none", low=0),
        absorbing=Key(False, "learn the reward of the state after an episode that terminates"),
    )

    def _create_heads(self) -> list[nn.Module]:
        if self._cfg.absorbing:
            self._columns += ("done",)
        sizes = [self._encoder.size + self._cfg.absorbing, *self._cfg.hidden_size_list, 1]
        self._head = MLP(sizes, "tanh", output=True).to(self._device)
        return [self._head]

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        learn, discount = setup.cfg.policy.learn, setup.cfg.policy.discount_factor
        if self._cfg.absorbing and (learn.ignore_done or discount == 1):
            key = "policy.learn.ignore_done=True" if learn.ignore_done else "policy.discount_factor=1"
            raise ConfigError(f"reward_model.absorbing=True contradicts {key}: set one of them otherwise.")
        super().connect(setup, policy, replay)

    def _samples(self, steps: Batch) -> dict[str, Any]:
        if not self._cfg.absorbing:
            return dict(steps)
        number = len(steps["done"])
        row_M = torch.cat([torch.arange(number, device=self._device), steps["done"].nonzero().squeeze(1)])
        samples: dict[str, Any] = tree_map(lambda leaf: leaf[row_M], steps)
        return samples | {"absorbing": torch.arange(len(row_M), device=self._device) >= number}

    def _features(self, steps: Batch) -> Tensor:
        x_MF: Tensor = self._encoder(steps["obs"], steps["action"])
        if not self._cfg.absorbing:
            return x_MF
        absorbing_M1 = steps.get("absorbing", torch.zeros_like(steps["done"]))[:, None]
        return torch.cat([x_MF.masked_fill(absorbing_M1, 0.0), absorbing_M1.float()], dim=1)

    def _logits(self, steps: Batch) -> Tensor:
        return self._head(self._features(steps)).squeeze(1)

    def _complete(self, batch: Batch, generator: torch.Generator) -> Batch:
        place_B1 = torch.rand(self._cfg.batch_size, 1, generator=generator)
        return batch | {"place": place_B1.to(self._device)}

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        loss, figures = super()._loss(batch)
        if weight := self._cfg.grad_penalty_weight:
            own_BF, expert_BF = (self._features(batch[side]).detach() for side in ("own", "expert"))
            x_BF = own_BF.lerp(expert_BF, batch["place"]).requires_grad_()
            (slope_BF,) = torch.autograd.grad(self._head(x_BF).sum(), x_BF, create_graph=True)
            penalty = (slope_BF.norm(dim=1) - 1.0).square().mean()
            loss, figures = loss + weight * penalty, figures | {"grad_penalty": penalty.detach()}
        return loss, figures

    def _rewards(self, steps: Batch) -> Tensor:
        reward_of = FORMS[self._cfg.reward_form]
        reward_M = reward_of(self._logits(steps))
        if not self._cfg.absorbing:
            return reward_M
        discount = self._policy.current_config.discount_factor
        one = tree_map(lambda leaf: leaf[:1], steps)
        reward = reward_of(self._logits(one | {"absorbing": torch.ones_like(one["done"])}))
        return reward_M + steps["done"] * (discount / (1.0 - discount)) * reward

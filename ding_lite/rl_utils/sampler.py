"""DI-engine's names for the ways to choose an action from a logit; see `distribution.py`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ding_lite.rl_utils.distribution import mode, sample


class ArgmaxSampler:
    """The most likely discrete action."""

    def __call__(self, logit: Tensor) -> Any:
        return mode(logit)


class MultinomialSampler:
    """A discrete action drawn at random."""

    def __call__(self, logit: Tensor) -> Any:
        return sample(logit)


class MuSampler:
    """The mean of a continuous action."""

    def __call__(self, logit: dict[str, Any]) -> Any:
        return mode(logit)


class ReparameterizationSampler:
    """A continuous action drawn at random as mu + sigma noise: the gradient flows through mu and sigma."""

    def __call__(self, logit: dict[str, Any]) -> Any:
        return torch.addcmul(logit["mu"], logit["sigma"], torch.randn_like(logit["mu"]))


class HybridStochasticSampler:
    """A hybrid action drawn at random; the gradient flows through the arguments' mu and sigma."""

    def __call__(self, logit: dict[str, Any]) -> Any:
        return {
            "action_type": MultinomialSampler()(logit["action_type"]),
            "action_args": ReparameterizationSampler()(logit["action_args"]),
        }


class HybridDeterminsticSampler:
    """The most likely type of a hybrid action, with the arguments' means; spelt as DI-engine's."""

    def __call__(self, logit: dict[str, Any]) -> Any:
        return mode(logit)

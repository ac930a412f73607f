"""The base class of reward models, which change or add rewards between collecting and storing.

A reward model receives every rollout block of its rank, including those with random actions. First `train` learns from
the block, then `relabel` returns it with new rewards. The new rewards are stored and learned from. Evaluations and
logged returns use the environment's own rewards.

Shapes: T steps, N environments, K ended episodes.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from gymnasium import Space
from gymnasium.spaces import Dict
from torch import Tensor

from ding_lite.run.learning_part import LEARNING_PART_KEYS, LearningPart
from ding_lite.torch_utils.data import Block
from ding_lite.utils.key import Key


class RewardModel(LearningPart):
    """Base of all reward models. To write one, subclass it, register the class, and name it in `create_config`.

    It learns in `train`, with the networks that `_init_networks` builds, see `LearningPart`. A model whose rewards
    change while it learns may set `replay.view.rewards` in `connect`, so that replay does not return those of long ago,
    see `TransitionView`.
    """

    section = "reward_model"
    config: ClassVar[dict[str, Any]] = dict(type=Key("", "name in the reward model registry"), **LEARNING_PART_KEYS)

    def train(self, block: Block) -> dict[str, Tensor]:
        """Learn from a rollout block, if it learns; return figures whose means are logged, the same names on all ranks.

        All ranks must take the same number of optimizer steps. If whole episodes are collected, T differs between
        ranks; `minibatches` in `torch_utils/minibatch.py` then returns the same number of batches on each.
        """
        return {}

    def relabel(self, block: Block) -> dict[str, Any]:
        """Return a copy of the block with a new `reward` `[T, N]`; the given block must not be changed."""
        raise NotImplementedError

    def process(self, block: Block) -> dict[str, Any]:
        """Train on a rollout block, then return it with new rewards. It is called after every collect.

        Raises:
            NonFiniteError: see `_record`.
            ValueError: the new rewards are not `[T, N]`.
        """
        self._record(lambda: self.train(block))
        with torch.no_grad():
            relabelled = self.relabel(block)
        reward, old_TN = relabelled["reward"], block["reward"]
        if reward.shape != old_TN.shape:
            expected, got = tuple(old_TN.shape), tuple(reward.shape)
            raise ValueError(f"{type(self).__name__}.relabel: expected rewards of shape {expected}, got {got}.")
        return {**relabelled, "reward": reward.to(old_TN)}


def shape_of(space: Space[Any]) -> Any:
    """Return the shape of an observation, as encoders take it: a list, or a dict of shapes."""
    return {key: shape_of(part) for key, part in space.items()} if isinstance(space, Dict) else [*(space.shape or ())]

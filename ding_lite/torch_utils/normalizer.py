"""Normalises observations and rewards by running statistics that all ranks share.

Environments, the collector's rollout blocks, replay and data sets hold unchanged observations and rewards. They are
normalised where the policy receives them, see `Policy.learn`, `act` and `to_samples`. Shapes: T steps, N environments,
F features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.torch_utils.data import Batch, Block
from ding_lite.torch_utils.running_stat import RunningMeanStd
from ding_lite.utils.ranks.collectives import alone
from ding_lite.utils.tree import GLOBAL, MASK, STATE

CLIP = 10.0  # largest absolute value of a normalised observation, and by default of a reward
OBS_KEYS = (
    "obs",
    "next_obs",
    "next_obs_1",
    "last_obs",
    "final_obs",
)  # keys of blocks and batches that hold observations
REWARD_KEYS = ("reward", "reward_1")


def active_agents(obs: Any) -> Tensor | None:
    """Return which agents are in the game, bool `[..., M]`; None if the observations have no agents, or no mask.

    The mask `[..., M, A]` of an agent that is out of the game allows exactly one action. Where no agent has a choice,
    all count.
    """
    if not isinstance(obs, Mapping) or STATE not in obs or MASK not in obs:
        return None
    choice_XM: Tensor = (obs[MASK] != 0).sum(-1) != 1
    return choice_XM | ~choice_XM.any(-1, keepdim=True)


def normalized_features(
    space: gymnasium.Space[Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the keys that lead to each array of floats in an observation, and its number of features; no masks."""
    if isinstance(space, Dict):
        for key, part in space.items():
            if key != MASK:
                yield from normalized_features(part, (*path, key))
    elif isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        yield path, int(np.prod(space.shape))


class Normalizer(nn.Module):
    """The running statistics of observations and of discounted returns, the same on all ranks.

    * An observation becomes (x - mean) / sqrt(var + 1e-8), clipped to -10..10. Each of its F features has its own mean
      and variance, over all env steps of all ranks so far; an agent's, over those in which it was in the game.
    * A reward becomes r / sqrt(var + 1e-8), clipped. var is the variance of the discounted return R_t = r_t + gamma
      R_{t-1} over all env steps so far, with R = 0 before an episode. The mean is not subtracted, because this would
      change which policy is best. Replay clips the sum of n rewards.

    Before the first update the mean is 0 and the variance 1.

    Args:
        observation_space: the space of one observation, as the policy sees it; None: observations stay unchanged.
        reward_discount: gamma; None: rewards stay unchanged.
        reward_clip: largest absolute value of a normalised reward; None: no limit. The first reward after many zeros is
            otherwise hundreds of standard deviations large.

    Attributes:
        obs: the statistics of the features; None if observations stay unchanged.
        returns: the statistics of R; None if rewards stay unchanged.
        active: whether anything is normalised.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any] | None,
        reward_discount: float | None,
        reward_clip: float | None = CLIP,
    ) -> None:
        super().__init__()
        self._places: dict[tuple[str, ...], slice] = {}
        size = 0
        for path, number in normalized_features(observation_space) if observation_space is not None else ():
            self._places[path] = slice(size, size + number)
            size += number
        self.obs = RunningMeanStd((size,)) if size else None
        self._discount, self._reward_clip = reward_discount or 0.0, math.inf if reward_clip is None else reward_clip
        self.returns = RunningMeanStd() if reward_discount is not None else None
        self.active = self.obs is not None or self.returns is not None
        self._running_E = torch.zeros(0, dtype=torch.float64)  # R of this rank's episodes, of one actor after another

    def normalize_obs(self, obs: Any, path: tuple[str, ...] = ()) -> Any:
        """Return observations `[..., *shape]` or nested dicts of these; the normalised parts are float32 tensors.

        `path` are the keys that lead to them in a whole observation.
        """
        if self.obs is None or (path not in self._places and not isinstance(obs, Mapping)):
            return obs
        if isinstance(obs, Mapping):
            return {key: self.normalize_obs(part, (*path, key)) for key, part in obs.items()}
        place, x = self._places[path], torch.as_tensor(obs, device=self.obs.mean.device)
        features = x.reshape(-1, place.stop - place.start)
        normal = (features - self.obs.mean[place]) / self.obs.std[place]
        return normal.clamp(-CLIP, CLIP).float().view(x.shape)

    def normalize(self, batch: Batch) -> dict[str, Any]:
        """Return a batch or a block with normalised observations and rewards; the given one is not changed."""
        return self._with_rewards(self._with_obs(batch))

    def _with_obs(self, batch: Batch) -> dict[str, Any]:
        return batch | {key: self.normalize_obs(batch[key]) for key in OBS_KEYS if key in batch}

    def _with_rewards(self, batch: Batch) -> dict[str, Any]:
        if self.returns is None:
            return batch
        return batch | {key: self._normal_reward(batch[key]) for key in REWARD_KEYS if key in batch}

    def _normal_reward(self, reward: Tensor) -> Tensor:
        assert self.returns is not None
        normal = (reward / self.returns.std.to(reward.device)).to(reward.dtype)
        return normal.clamp(-self._reward_clip, self._reward_clip)

    def observe(self, block: Block) -> dict[str, Any]:
        """Update the statistics with a rollout block, and return it normalised; a collective call.

        Observations are normalised by the statistics with which the policy acted; rewards by the new ones, so that
        those of the first block are normalised too.
        """
        acted = self._with_obs(block)
        self.update(block)
        return self._with_rewards(acted)

    def update(self, block: Block) -> None:
        """Add the env steps of a rollout block of each rank; a collective call.

        Args:
            block: `obs` `[T, N, ...]`, `reward` and `episode_step` `[T, N]`. T may differ between ranks. `actor` is
                the number of the actor that played it, if one did.
        """
        if self.obs is not None:
            self.obs.update(self._features(block["obs"]), self._counted(block["obs"]))
        if self.returns is not None:
            self.returns.update(self._discounted_returns(block).to(self.returns.mean.device))

    def fit(self, parts: Iterator[Any]) -> None:
        """Use the statistics of a data set that every rank reads as a whole, in parts `[R, ...]`, if there are none."""
        if self.obs is not None and not self.obs.count.any():
            with alone():
                for part in parts:
                    self.obs.update(self._features(part), self._counted(part))

    def _features(self, obs: Any) -> Tensor:
        """Return the features `[..., F]` of observations, on the device of the statistics."""
        assert self.obs is not None
        columns = []
        for path, place in self._places.items():
            leaf = obs
            for key in path:
                leaf = leaf[key]
            columns.append(leaf.to(self.obs.mean.device).reshape(-1, place.stop - place.start))
        return torch.cat(columns, dim=1) if len(columns) > 1 else columns[0]

    def _counted(self, obs: Any) -> Tensor | None:
        """Return which features of which rows count, bool `[R, F]`: not those of agents that are out of the game."""
        active_XM = active_agents(obs)
        if active_XM is None:
            return None
        active_RM, columns = active_XM.flatten(0, -2), []
        for (key, *_), place in self._places.items():
            size, of_each = place.stop - place.start, key == STATE or (key == GLOBAL and obs[key].ndim > active_XM.ndim)
            part = active_RM if of_each else torch.ones_like(active_RM[:, :1])
            columns.append(part.repeat_interleave(size // part.shape[1], dim=1))
        return torch.cat(columns, dim=1)

    def _discounted_returns(self, block: Block) -> Tensor:
        """Return R after each step, `[T, N]` float64, and remember the last row."""
        reward_TN, continues_TN = block["reward"].double(), block["episode_step"] != 0
        first, number = int(block.get("actor", 0)) * reward_TN.shape[1], reward_TN.shape[1]
        self._running_E = self._running_E.to(reward_TN.device)
        self._running_E = F.pad(self._running_E, (0, max(first + number - len(self._running_E), 0)))
        running_N = self._running_E[first : first + number]
        return_TN = torch.empty_like(reward_TN)
        for reward_N, continues_N, return_N in zip(reward_TN, continues_TN, return_TN, strict=True):
            running_N = reward_N + self._discount * running_N * continues_N
            return_N.copy_(running_N)
        self._running_E[first : first + number] = running_N
        return return_TN

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore statistics that `state_dict` returned; those that this object does not use are ignored."""
        own = self.state_dict()
        self.load_state_dict({key: state.get(key, value).expand_as(value) for key, value in own.items()})

    def local_state_dict(self) -> dict[str, Any]:
        """Return the discounted returns of this rank's running episodes."""
        return {"running_return": self._running_E.cpu()} if len(self._running_E) else {}

    def load_local_state_dict(self, state: Mapping[str, Any]) -> None:
        self._running_E = state.get("running_return", self._running_E[:0]).clone()

"""The base of adversarial imitation: a discriminator tells an expert's steps from those of the policy.

Let f be its logit, and D = sigmoid(f) the probability that a step is the expert's. After each collect it minimises

    mean_pi softplus(f) + mean_E softplus(-f)  =  -mean_pi log(1 - D) - mean_E log D

over batches of the policy's steps, pi, and of an expert's data set, E. Both sides get the same treatment: the policy's
units of actions, one-hot if they are discrete and within their bounds if not, and the policy's normaliser, if any.

A policy that learns from its collect gets a block with new rewards; pi is this block. If it learns from replay, pi is
replay, and rewards are computed whenever a batch is drawn, by the discriminator of now.

Shapes: T steps, N environments, M steps, B samples, K rewards of an n-step sum, F features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.imitation.expert import EXPERT_KEYS, read_expert
from ding_lite.model.encoders import create_encoder, feature_size
from ding_lite.policy import Policy
from ding_lite.reward_model.base import RewardModel, shape_of
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.utils.key import Key
from ding_lite.utils.ranks.collectives import get_rank, get_world_size
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_leaves, tree_map
from ding_lite.worker import ReplayBuffer, TransitionView
from ding_lite.worker.replay.ring import Ring


class AdversarialRewardModel(RewardModel):
    """Base of discriminators. A subclass says what it reads of a step, its logits, and which rewards they give."""

    config = dict(
        **EXPERT_KEYS,
        learning_rate=1e-3,
        hidden_size_list=Key([128], "layers of the discriminator, with tanh", low=1),
        encoder_hidden_size_list=Key([128, 128, 64], "layers of the encoder, if an observation has images", low=1),
        batch_size=Key(64, "steps of the policy per rank and update, and as many of the expert", low=1),
        update_per_collect=Key(100, "updates after each collect", low=0),
    )

    def _init_networks(self) -> None:
        hidden = self._cfg.encoder_hidden_size_list
        self._encoder = StepEncoder(self._observation_space, self._action_space, hidden).to(self._device)
        self._ring: Any = None  # of replay, if the policy learns from it
        self._columns: tuple[str, ...] = ("obs", "action")  # what it reads of a step
        heads = self._create_heads()
        self._optimizer = self._add_optimizer("discriminator", nn.ModuleList([self._encoder, *heads]))

    def _create_heads(self) -> list[nn.Module]:
        """Create what follows the encoder, and return it."""
        raise NotImplementedError

    def _logits(self, steps: Batch) -> Tensor:
        """Return f of steps that are `_ready`, `[M]`."""
        raise NotImplementedError

    def _rewards(self, steps: Batch) -> Tensor:
        """Return the rewards of steps that are `_ready`, `[M]`."""
        raise NotImplementedError

    def _ready(self, steps: Batch) -> dict[str, Any]:
        """Return steps of the policy or the expert with observations as the policy sees them, and encoded actions."""
        obs = self._policy.normalizer.normalize_obs(steps["obs"])
        return {**steps, "obs": obs, "action": self._encoder.encode_action(steps["action"])}

    def _samples(self, steps: Batch) -> dict[str, Any]:
        """Return what is learned from, for steps that are `_ready`."""
        return dict(steps)

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        """Read the expert's data set, see `read_expert`, and let replay ask for the rewards that it returns."""
        self._policy, name = policy, f"reward_model.type '{self._cfg.type}'"
        if policy.multi_agent:
            raise ConfigError(f"{name} imitates a single agent, but policy '{setup.cfg.policy.type}' has several.")
        # Without `next_obs`, the last step of a trajectory that was cut would be left out.
        required = (*self._columns, "next_obs") if "done" in self._columns else self._columns
        expert = read_expert(setup, required)
        columns = expert.gather(torch.arange(len(expert)))
        self._expert = self._read(columns)
        if replay is None:
            return
        if type(replay.view) is not TransitionView:
            raise ConfigError(
                f"{name} computes the rewards of single steps when they are drawn, but the replay buffer "
                f"'{setup.cfg.policy.other.replay_buffer.type}' of policy '{setup.cfg.policy.type}' draws others: "
                "choose a policy that learns from transitions, such as 'dqn', 'sac' or 'ppo'."
            )
        replay.view.rewards, replay.graphs = self._drawn_rewards, None
        self._ring = replay.ring

    def _read(self, columns: Batch) -> dict[str, Any]:
        """Return what it needs of the expert's data set."""
        steps: dict[str, Any] = self._to_device({key: columns[key] for key in self._columns})
        return steps

    def train(self, block: Block) -> dict[str, Tensor]:
        cfg, figures = self._cfg, dict[str, Tensor]()
        # The count makes the batches of a resumed run those of one that was never stopped.
        seed = self._optimizer.steps * get_world_size() + get_rank()
        generator = torch.Generator().manual_seed(seed)
        own = self._samples(self._ready(self._replayed(generator) or self._steps_of(block)))
        expert = self._samples(self._ready(self._expert))
        for _ in range(cfg.update_per_collect):
            sides = {"own": own, "expert": expert}
            batch = {side: draw(steps, cfg.batch_size, generator) for side, steps in sides.items()}
            figures = self._optimizer.step(self._loss, self._complete(batch, generator))
        return figures

    def _complete(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Return a batch of both sides with what the loss needs besides: random numbers, figures of all ranks."""
        return batch

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        own_B, expert_B = self._logits(batch["own"]), self._logits(batch["expert"])
        figures = {"policy_accuracy": (own_B < 0).float().mean(), "expert_accuracy": (expert_B > 0).float().mean()}
        return F.softplus(own_B).mean() + F.softplus(-expert_B).mean(), figures

    def relabel(self, block: Block) -> dict[str, Any]:
        reward_M = self._rewards(self._ready(self._steps_of(block)))
        return {**block, "reward": reward_M.view(block["reward"].shape).to(block["reward"].device)}

    def _replayed(self, generator: torch.Generator) -> dict[str, Any]:
        """Return as many steps of replay as the next updates draw; nothing while there are none."""
        starts = self._ring.starts(1) if self._ring is not None else ()
        if not starts:
            return {}
        number = self._cfg.batch_size * self._cfg.update_per_collect
        row_M = torch.randint(starts.start, starts.stop, (number,), generator=generator)
        env_M = torch.randint(self._ring.num_envs, (number,), generator=generator)
        place_M = self._ring.places(row_M.numpy(), env_M.numpy())
        return self._steps_at(torch.from_numpy(place_M).to(self._ring.device))

    def _steps_at(self, place_M: Tensor) -> dict[str, Any]:
        """Return the columns of the steps at these places of replay, `[M, ...]`."""
        ring = self._ring
        steps = ring.rows(place_M, without=ring.columns.keys() - {*self._columns} | {"obs"})
        return self._to_device(steps | {"obs": ring.observations(place_M)})

    def _steps_of(self, block: Block) -> dict[str, Any]:
        """Return the columns of a rollout block, `[T N, ...]`."""
        steps = self._to_device({key: block[key] for key in self._columns})
        return tree_map(lambda leaf: leaf.flatten(0, 1), steps)

    @torch.no_grad()
    def _drawn_rewards(self, ring: Ring, place_BK: Tensor) -> Tensor:
        """Return the rewards `[B, K]` of the steps at these places of replay."""
        reward_M = self._rewards(self._ready(self._steps_at(place_BK.flatten())))
        return reward_M.view(place_BK.shape).to(place_BK.device, ring.columns["reward"].dtype)


class StepEncoder(nn.Module):
    """Maps observations and actions to features. Without images, these are the numbers themselves, side by side.

    `hidden_size_list` are the layers of the encoder of observations that have images.

    Attributes:
        size: F, the number of features.
    """

    low: Tensor
    high: Tensor

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], hidden_size_list: list[int]) -> None:
        super().__init__()
        if not isinstance(action_space, Discrete | MultiDiscrete | Box):
            raise ConfigError(f"Imitation needs a Discrete, MultiDiscrete or Box action space, got {action_space}.")
        shape = shape_of(observation_space)
        hidden = hidden_size_list if any(len(leaf) > 1 for leaf in _shapes(shape)) else []
        self.obs = create_encoder(shape, hidden)
        choices: Any = getattr(action_space, "nvec", getattr(action_space, "n", ()))
        self._choices = [int(number) for number in np.ravel(choices)]  # empty for a Box
        if isinstance(action_space, Box):
            self.register_buffer("low", torch.from_numpy(action_space.low).flatten(), persistent=False)
            self.register_buffer("high", torch.from_numpy(action_space.high).flatten(), persistent=False)
        self.size = feature_size(shape, hidden) + (sum(self._choices) or int(np.prod(action_space.shape or ())))

    def encode_action(self, action_M: Tensor) -> Tensor:
        """Return numbers for actions `[M, ...]`: one-hot vectors side by side, or those of a Box within its bounds.

        An environment clips a Gaussian policy's actions, and an expert's data set has what was played.
        """
        rows = action_M.reshape(len(action_M), -1)
        if not self._choices:
            return rows.clamp(self.low, self.high)
        parts = zip(rows.long().unbind(1), self._choices, strict=True)
        return torch.cat([F.one_hot(part_M, number) for part_M, number in parts], dim=1).float()

    def forward(self, obs: Any, action_MA: Tensor) -> Tensor:
        """Return features `[M, F]` for observations and encoded actions."""
        return torch.cat([self.obs(obs), action_MA], dim=1)


def _shapes(shape: Any) -> Any:
    """Yield the shapes of all parts of an observation."""
    if isinstance(shape, dict):
        for part in shape.values():
            yield from _shapes(part)
    else:
        yield shape


def draw(steps: Batch, size: int, generator: torch.Generator) -> Any:
    """Return some of the steps, drawn at random, `[B, ...]`."""
    first = next(tree_leaves(steps))
    index_B = torch.randint(len(first), (size,), generator=generator).to(first.device)
    return tree_map(lambda leaf: leaf[index_B], steps)

"""The base class of reward models, which change or add rewards between collecting and storing.

A reward model receives every rollout block of its rank, including those with random actions. First `train` learns from
the block, then `relabel` returns it with new rewards. The new rewards are stored and learned from. Evaluations and
logged returns use the environment's own rewards.

Shapes: T steps, N environments, K ended episodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from easydict import EasyDict
from gymnasium import Space
from gymnasium.spaces import Dict
from torch import Tensor, nn

from ding_lite.torch_utils.data import Block
from ding_lite.torch_utils.networks import (
    average_buffers,
    drifting_buffers,
    modules_of,
)
from ding_lite.torch_utils.nonfinite import NonFiniteError
from ding_lite.torch_utils.optimizer import LEARNING_RATE, OPTIMIZER_KEYS, Trained
from ding_lite.torch_utils.optimizer_step import Optimizers, OptimizerStep
from ding_lite.torch_utils.running_stat import RunningMeans
from ding_lite.torch_utils.switches import set_training
from ding_lite.utils.key import ConfigDict, Key
from ding_lite.utils.ranks.collectives import broadcast_module
from ding_lite.utils.tree import tree_map

if TYPE_CHECKING:
    from ding_lite.policy import Policy
    from ding_lite.run.setup import RunSetup
    from ding_lite.worker import ReplayBuffer


class RewardModel:
    """Base of all reward models. To write one, subclass it, register the class, and name it in `create_config`.

    A subclass builds its networks in `_init_networks`, on `self._device`. For each network that learns it creates an
    optimizer with `_add_optimizer`. The base class does the rest, wherever the object keeps its networks: all ranks
    start with the networks of rank 0, gradients are averaged over ranks, and checkpoints contain the `networks`, which
    have the same order on every rank. A subclass with other state, such as counters, extends `state_dict` and
    `load_state_dict`.

    `cfg` is the compiled `cfg.reward_model`, `policy_cfg` is `cfg.policy`, whose keys say how gradients are averaged
    and what happens if they are not finite. The spaces are those of one environment, the device that of the policy.
    """

    config: ClassVar[dict[str, Any]] = dict(
        type=Key("", "name in the reward model registry"),
        learning_rate=LEARNING_RATE,
        **OPTIMIZER_KEYS,
    )

    def __init__(
        self,
        cfg: EasyDict,
        policy_cfg: EasyDict,
        observation_space: Space[Any],
        action_space: Space[Any],
        device: torch.device,
    ) -> None:
        self._cfg, self._policy_cfg, self._device = cfg, policy_cfg, device
        self._observation_space, self._action_space = observation_space, action_space
        self._optimizers, self._means = Optimizers(), RunningMeans()
        self._init_networks()
        self.networks: list[nn.Module] = modules_of(self)
        self._drifting = drifting_buffers(self.networks)
        broadcast_module(nn.ModuleList(self.networks))

    def _init_networks(self) -> None:
        """Build the networks and their optimizers."""

    def _add_optimizer(
        self, name: str, network: nn.Module | dict[str, Trained], *args: Any, **options: Any
    ) -> OptimizerStep:
        """Return an optimizer of `network`; `train` calls its `step(loss, batch)`.

        Arguments as for `Policy._add_optimizer`. The defaults of learning rate, weight decay and gradient clipping are
        those of `cfg.reward_model`.
        """
        cfg = ConfigDict({**self._policy_cfg, "learn": {**self._policy_cfg.learn, **self._cfg}})
        return self._optimizers.add(name, OptimizerStep(network, cfg, *args, **options))

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        """Take what it needs of the other parts of the run; by default nothing. A collective call, before any block.

        `replay` is None if the policy learns from each collect. A model whose rewards change while it learns may set
        `replay.view.rewards`, so that replay does not return those of long ago, see `TransitionView`.
        """

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
            NonFiniteError: on every rank, if a loss or a gradient is not finite and such updates are not skipped.
            ValueError: the new rewards are not `[T, N]`.
        """
        set_training(self.networks, True)
        try:
            figures = self.train(block)
            self._optimizers.finish()
        except NonFiniteError as error:
            error.detail = f"In the reward model: {error.detail}"
            raise
        if self._drifting:
            average_buffers(self._drifting)
        figures = figures | self._optimizers.figures()
        self._means.add(figures, list(figures))
        set_training(self.networks, False)
        with torch.no_grad():
            relabelled = self.relabel(block)
        reward, old_TN = relabelled["reward"], block["reward"]
        if reward.shape != old_TN.shape:
            expected, got = tuple(old_TN.shape), tuple(reward.shape)
            raise ValueError(f"{type(self).__name__}.relabel: expected rewards of shape {expected}, got {got}.")
        return {**relabelled, "reward": reward.to(old_TN)}

    def take_figures(self) -> dict[str, float]:
        """Return the means of the figures since the last call, over ranks and blocks; one collective."""
        return self._means.take(list(self._means.state_dict()))

    def state_dict(self) -> dict[str, Any]:
        """Return everything that learning has changed, which is the same on all ranks."""
        return {"networks": [network.state_dict() for network in self.networks], **self._optimizers.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for network, own in zip(self.networks, state["networks"], strict=True):
            network.load_state_dict(own)
        self._optimizers.load_state_dict(state)

    def local_state_dict(self) -> dict[str, Any]:
        """Return the state that differs between ranks: the sums of figures since the last record, as `means`.

        Everything else is tensors `[N, ...]` of the running episodes, which a resumed run may deal to other ranks.
        """
        return {"means": self._means.state_dict()}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        self._means.load_state_dict(state["means"])

    def _to_device(self, data: Any) -> Any:
        """Return arrays, tensors or nested dicts of these as tensors on the model's device, floats as float32."""

        def move(leaf: Any) -> Tensor:
            leaf = torch.as_tensor(leaf)
            return leaf.to(self._device, torch.float32 if leaf.is_floating_point() else None, non_blocking=True)

        return tree_map(move, data)


def shape_of(space: Space[Any]) -> Any:
    """Return the shape of an observation, as encoders take it: a list, or a dict of shapes."""
    return {key: shape_of(part) for key, part in space.items()} if isinstance(space, Dict) else [*(space.shape or ())]

"""Reward models: what changes or adds a reward between collecting and storing.

A reward model sees every rollout block of its rank twice, those that are played at random too: `train` learns from the
block, then `relabel` returns it with other rewards. These are what is stored and learned from. Evaluations and recorded
returns keep the environment's own rewards.

Shapes: T steps, N environments, K ended episodes.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from easydict import EasyDict
from gymnasium import Space
from torch import Tensor, nn

from ding_lite.torch_utils.diagnosis import NonFiniteError
from ding_lite.torch_utils.modes import Loss
from ding_lite.torch_utils.networks import (
    average_buffers,
    broadcast_networks,
    drifting_buffers,
    modules_of,
    set_training,
)
from ding_lite.torch_utils.optimizer import Trained
from ding_lite.torch_utils.optimizer_step import Optimizers, OptimizerStep
from ding_lite.torch_utils.running_mean import RunningMeans
from ding_lite.utils.key import Key
from ding_lite.utils.tree import tree_map


class RewardModel:
    """Base of all reward models. To write one, subclass it, register the class, and name it in `create_config`.

    A subclass builds its networks in `_init_networks`, on `self._device`, and gives each that learns an optimizer by
    `_add_optimizer`. All networks start as those of rank 0, their gradients are averaged over ranks, and checkpoints
    hold them, wherever the object keeps them. A subclass that counts anything extends `state_dict`.

    Args:
        cfg: the compiled `cfg.reward_model`.
        policy_cfg: the compiled `cfg.policy`; it says how ranks average gradients and what happens to one that is not
            finite.
        observation_space: of one environment.
        action_space: of one environment.
        device: where the policy's model is.

    Attributes:
        networks: all of them, in the same order on every rank.
    """

    config: ClassVar[dict[str, Any]] = dict(
        type=Key("", "name in the reward model registry"),
        learning_rate=Key(0.001, "step size of its Adam", low=0, high=10**6),
        weight_decay=Key(0.0, "L2 penalty of its Adam", low=0, high=10**6),
        grad_clip_type=Key(
            None,
            "'clip_norm' or 'clip_value', applied to the averaged gradient",
            choices=(None, "clip_norm", "clip_value"),
        ),
        grad_clip_value=Key(0.5, "the bound", low=0),
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
        broadcast_networks(self.networks)

    def _init_networks(self) -> None:
        """Build the networks and their optimizers."""

    def _add_optimizer(
        self, name: str, network: nn.Module | dict[str, Trained], loss: Loss, *args: Any, **options: Any
    ) -> OptimizerStep:
        """Return an optimizer of `loss` over `network`, whose `step(batch)` `train` calls.

        Arguments as for `Policy._add_optimizer`; learning rate and bounds are by default those of `cfg.reward_model`.
        """
        cfg = EasyDict({**self._policy_cfg, "learn": {**self._policy_cfg.learn, **self._cfg}})
        return self._optimizers.add(name, OptimizerStep(network, loss, cfg, *args, **options))

    def train(self, block: dict[str, Any]) -> dict[str, Tensor]:
        """Learn from a rollout block `[T, N, ...]`; return figures to log, of the same names on all ranks.

        All ranks have to take the same number of optimizer steps; whole-episode collects differ in T between ranks,
        and `torch_utils.minibatches` then cuts as many batches on each. A fixed reward model need not override this.
        """
        return {}

    def relabel(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return the block with another `reward` `[T, N]`; the block that is passed in must not change."""
        raise NotImplementedError

    def process(self, block: dict[str, Any]) -> dict[str, Any]:
        """Train on a rollout block, then return it relabelled; the collector's side calls this.

        Raises:
            NonFiniteError: on every rank, if a loss or gradient is not finite, and updates are not skipped.
            ValueError: the new rewards are not `[T, N]`.
        """
        self._set_training(True)
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
        self._set_training(False)
        with torch.no_grad():
            relabelled = self.relabel(block)
        reward, old_TN = relabelled["reward"], block["reward"]
        if reward.shape != old_TN.shape:
            raise ValueError(
                f"{type(self).__name__}.relabel: expected rewards of shape {tuple(old_TN.shape)}, got "
                f"{tuple(reward.shape)}."
            )
        return {**relabelled, "reward": reward.to(old_TN)}

    def _set_training(self, training: bool) -> None:
        for network in self.networks:
            set_training(network, training)

    def take_figures(self) -> dict[str, float]:
        """Return the means, over ranks and blocks, of what `train` returned since the last call; one collective."""
        return self._means.take(list(self._means.state_dict()))

    def state_dict(self) -> dict[str, Any]:
        """Return everything that learning has changed, which is the same on all ranks."""
        return {"networks": [network.state_dict() for network in self.networks], **self._optimizers.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        for network, own in zip(self.networks, state["networks"], strict=True):
            network.load_state_dict(own)
        self._optimizers.load_state_dict(state)

    def local_state_dict(self) -> dict[str, Any]:
        """Return this rank's state: the sums of figures for the next record."""
        return {"means": self._means.state_dict()}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `local_state_dict` gave."""
        self._means.load_state_dict(state["means"])

    def _to_device(self, data: Any) -> Any:
        """Return nested dicts of arrays or tensors as tensors on the reward model's device, floats as float32."""

        def move(leaf: Any) -> Tensor:
            leaf = torch.as_tensor(leaf)
            return leaf.to(self._device, torch.float32 if leaf.is_floating_point() else None, non_blocking=True)

        return tree_map(move, data)


def next_obs(block: dict[str, Any]) -> Any:
    """Return the observation that follows each step of a rollout block, `[T, N, ...]`, or a dict of these.

    It is the next row of `obs`, `last_obs` after the last row, and `final_obs` where an episode ended.
    """

    def follow(obs: Tensor, last: Tensor) -> Tensor:
        return torch.cat([obs[1:], last.unsqueeze(0)])

    following = tree_map(follow, block["obs"], block["last_obs"])
    if "final_index" in block:
        index_K = block["final_index"]
        tree_map(lambda new, final: new.flatten(0, 1).index_copy_(0, index_K, final), following, block["final_obs"])
    return following

"""The base class of the parts of a run that learn beside the policy, such as reward models and world models.

Each has a section of its name in the config and in checkpoints; `LEARNING_PARTS` lists them.

Shapes: N environments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from easydict import EasyDict
from gymnasium import Space
from torch import Tensor, nn

from ding_lite.torch_utils.networks import average_buffers, drifting_buffers, modules_of
from ding_lite.torch_utils.nonfinite import NonFiniteError
from ding_lite.torch_utils.optimizer import LEARNING_RATE, OPTIMIZER_KEYS, Trained
from ding_lite.torch_utils.optimizer_step import Optimizers, OptimizerStep
from ding_lite.torch_utils.running_stat import RunningMeans
from ding_lite.torch_utils.switches import set_training
from ding_lite.utils.key import ConfigDict
from ding_lite.utils.ranks.collectives import broadcast_module
from ding_lite.utils.tree import tree_map

if TYPE_CHECKING:
    from ding_lite.policy import Policy
    from ding_lite.run.setup import RunSetup
    from ding_lite.worker import ReplayBuffer

LEARNING_PART_KEYS = dict(learning_rate=LEARNING_RATE, **OPTIMIZER_KEYS)


class LearningPart:
    """Base of all parts of a run that learn beside the policy.

    A subclass builds its networks in `_init_networks`, on `self._device`. For each network that learns it creates an
    optimizer with `_add_optimizer`, and takes its steps inside `_record`. The base class does the rest, wherever the
    object keeps its networks: all ranks start with the networks of rank 0, gradients are averaged over ranks, and
    checkpoints contain the `networks`, which have the same order on every rank. A subclass with other state, such as
    counters, extends `state_dict` and `load_state_dict`.

    `cfg` is its compiled section of the config, `policy_cfg` is `cfg.policy`, whose keys say how gradients are averaged
    and what happens if they are not finite. The spaces are those of one environment, the device that of the policy.

    Attributes:
        section: the name of its section, a key of `LEARNING_PARTS`.
    """

    section: ClassVar[str]
    config: ClassVar[dict[str, Any]] = LEARNING_PART_KEYS

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        """Raise `ConfigError` if values of the whole compiled config contradict each other."""

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
        """Return an optimizer of `network`, of which `step(loss, batch)` is called.

        Arguments as for `Policy._add_optimizer`. The defaults of learning rate, weight decay and gradient clipping are
        those of this part's own section.
        """
        cfg = ConfigDict({**self._policy_cfg, "learn": {**self._policy_cfg.learn, **self._cfg}})
        return self._optimizers.add(name, OptimizerStep(network, cfg, *args, **options))

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        """Take what it needs of the other parts of the run; by default nothing. A collective call, before any block.

        `replay` is None if the policy learns from each collect.
        """

    def _record(self, train: Callable[[], dict[str, Tensor]]) -> None:
        """Call a function that takes optimizer steps, in training mode, and record the figures that it returns.

        Raises:
            NonFiniteError: on every rank, if a loss or a gradient is not finite and such updates are not skipped.
        """
        set_training(self.networks, True)
        try:
            figures = train()
            self._optimizers.finish()
        except NonFiniteError as error:
            error.detail = f"In the {self.section.replace('_', ' ')}: {error.detail}"
            raise
        if self._drifting:
            average_buffers(self._drifting)
        figures = figures | self._optimizers.figures()
        self._means.add(figures, list(figures))
        set_training(self.networks, False)

    def take_figures(self) -> dict[str, float]:
        """Return the means of the figures since the last call, over ranks and calls of `_record`; one collective."""
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

        `own` is what only a run with as many ranks takes up again. Everything else is tensors `[N, ...]` of the running
        episodes, which a resumed run may deal to other ranks.
        """
        return {"means": self._means.state_dict()}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        self._means.load_state_dict(state["means"])

    def _to_device(self, data: Any) -> Any:
        """Return arrays, tensors or nested dicts of these as tensors on this part's device, floats as float32."""

        def move(leaf: Any) -> Tensor:
            leaf = torch.as_tensor(leaf)
            return leaf.to(self._device, torch.float32 if leaf.is_floating_point() else None, non_blocking=True)

        return tree_map(move, data)

"""The base class of world models: parts of a run that learn from replay what the environment does."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from ding_lite.policy import Policy
from ding_lite.run.learning_part import LEARNING_PART_KEYS, LearningPart
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils.minibatch import rank_sizes
from ding_lite.utils.key import Key
from ding_lite.worker import ReplayBuffer

ENOUGH = 2  # steps of a rank: one to learn from, and one to measure the error


class WorldModel(LearningPart):
    """Base of all world models. To write one, subclass it, register the class, and name it in `create_config`.

    A loop calls `train` after each collect. A subclass builds networks in `_init_networks`, see `LearningPart`, and
    learns in `_learn`. A policy that has the attribute `world_model` gets it.
    """

    section = "world_model"
    config: ClassVar[dict[str, Any]] = dict(
        type=Key("", "name in the world model registry"),
        **LEARNING_PART_KEYS,
        train_freq=Key(250, "env steps of all ranks from one training to the next", low=1),
    )
    _trained_at = -1  # env steps of all ranks when it was last trained; -1: it was not

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        assert replay is not None, "pipelines with a world model train policies that learn from replay"
        self._setup, self._policy, self._replay = setup, policy, replay
        if hasattr(policy, "world_model"):
            policy.world_model = self

    def train(self, envstep: int) -> bool:
        """Learn from replay if that is due after `envstep` env steps of all ranks; return whether it was.

        A collective call. The first training is due as soon as the replay of each rank has enough steps.
        """
        if self._trained_at >= 0 and envstep - self._trained_at < self._cfg.train_freq:
            return False
        if min(rank_sizes(self._replay.count())) < ENOUGH:
            return False
        self._record(self._learn)
        self._trained_at = envstep
        return True

    def _learn(self) -> dict[str, Tensor]:
        """Learn from `self._replay`; return figures whose means are logged, the same names on all ranks.

        All ranks must take the same number of optimizer steps.
        """
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"trained_at": self._trained_at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._trained_at = state["trained_at"]

"""Rainbow (Hessel et al. 2018, arXiv:1710.02298): six improvements of DQN together.

Each can be switched off by a key, as in the paper's ablations:

* categorical distributions of returns, whose loss is that of `c51.py`: `model.distributional`
* a dueling head: `model.dueling`
* noisy layers in the head instead of epsilon: `noisy_net`
* double Q-learning: `double`
* n-step returns: `nstep`, off with 1
* prioritised replay: `priority`, and `priority_IS_weight` for its importance weights

With `model.distributional=False` the loss is that of `dqn.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from easydict import EasyDict
from torch import Tensor

from ding_lite.policy.value.c51 import SUPPORT_ALARM, SUPPORT_KEYS, categorical_loss, read_support
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("rainbow")
class RainbowDQNPolicy(DQNPolicy):
    """Rainbow. Its model returns what `RainbowDQN` returns."""

    config: ClassVar[dict[str, Any]] = dict(
        type="rainbow",
        priority=True,
        priority_IS_weight=Key(
            None, "correct the bias of prioritised replay; None: if priority is True", needs="priority", type=bool
        ),
        random_collect_size=2000,
        noisy_net=True,
        model=dict(
            **SUPPORT_KEYS,
            dueling=Key(True, "compute the head's output from a value and advantages"),
            distributional=Key(True, "learn distributions of returns, as C51; False: their means, as DQN"),
        ),
        learn=dict(
            update_per_collect=1,
            batch_size=32,
        ),
        other=dict(replay_buffer=dict(replay_buffer_size=100000)),
    )
    model_type = "rainbowdqn"
    alarms: ClassVar[dict[str, tuple[float, str]]] = {"clipped_share": SUPPORT_ALARM}
    logged_figures = (*DQNPolicy.logged_figures, "clipped_share")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        if cfg.policy.model.get("distributional", True):
            read_support(cfg.policy.model)

    def _init_learn(self) -> None:
        super()._init_learn()
        model = self._cfg.model
        self._support = read_support(model, self._model) if model.get("distributional", True) else None

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of C51 or of DQN, and detached figures; see `DQNPolicy._loss` for the batch."""
        if self._support is None:
            return super()._loss(batch)
        online = self._run(self._model, batch["obs"], layer_noise=batch["noise"].get("online"))
        target, next_action_B = self._next_outputs(batch)
        return categorical_loss(online, target, next_action_B, batch, self._support)

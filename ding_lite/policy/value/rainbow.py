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

from ding_lite.policy.value.c51 import SUPPORT_KEYS, CategoricalPolicy
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("rainbow")
class RainbowDQNPolicy(CategoricalPolicy, DQNPolicy):
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

"""Twin delayed DDPG, TD3 (Fujimoto et al. 2018, arXiv:1802.09477).

TD3 is DDPG with three changes against overestimated values: the smaller of two critics is the estimate, the target
action is smoothed by noise, and the actor and the targets are updated once every two iterations. The equations are in
`policy/continuous/ddpg.py`, and so are the logged figures.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ding_lite.policy.continuous.ddpg import DDPGPolicy
from ding_lite.utils.registry import POLICY_REGISTRY

TD3_KEYS: dict[str, Any] = dict(
    model=dict(twin_critic=True),
    learn=dict(actor_update_freq=2, noise=True),
    eval=dict(evaluator=dict(eval_freq=5000)),
)


@POLICY_REGISTRY.register("td3")
class TD3Policy(DDPGPolicy):
    """TD3: `DDPGPolicy` with other defaults."""

    config: ClassVar[dict[str, Any]] = dict(
        type="td3", **TD3_KEYS, other=dict(replay_buffer=dict(replay_buffer_size=100000))
    )

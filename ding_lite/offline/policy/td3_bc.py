"""TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860): TD3 that imitates the data.

The critics learn as in TD3, see `policy/continuous/ddpg.py`. The actor learns from Q and from the data's actions a:

    L_actor = -lambda mean Q_1(s, pi(s)) + mean (pi(s) - a)^2,  lambda = alpha / mean |Q_1(s, pi(s))|

Logged figures, in addition to those of `policy/continuous/ddpg.py`:

* `bc_loss`: the second term of L_actor.
* `q_scale`: mean |Q_1(s, pi(s))| over the samples of all ranks.

Deviation from the paper: observations are normalised only with `env.norm_obs=True`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import Tensor

from ding_lite.policy.common_keys import DATASET_KEYS, NSTEP_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS, WIDE_HEAD_KEYS
from ding_lite.policy.continuous.ddpg import TD3_KEYS, DDPGPolicy
from ding_lite.rl_utils.q_continuous import td3_bc_actor_error
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.utils.key import Key, merge_keys
from ding_lite.utils.ranks.collectives import allreduce_data
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("td3_bc")
class TD3BCPolicy(DDPGPolicy):
    """TD3+BC: TD3 with another actor loss, learned from a data set."""

    key_groups = (DATASET_KEYS, NSTEP_KEYS, SOFT_TARGET_KEYS, TWIN_CRITIC_KEYS, WIDE_HEAD_KEYS)
    config: ClassVar[dict[str, Any]] = merge_keys(
        TD3_KEYS,
        dict(
            type="td3_bc",
            learn=dict(alpha=Key(2.5, "weight of Q relative to imitation", low=0)),
            eval=dict(evaluator=dict(eval_freq=1000)),
        ),
    )
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "dataset"
    logged_figures = (*DDPGPolicy.logged_figures, "bc_loss", "q_scale")

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_actor and detached figures. All ranks must call it together, because it averages over ranks."""
        action_BD = self._run(self._model.actor, batch["obs"])
        q_B = self._run_frozen(self._model.critic, batch["obs"], action=action_BD, num=1)[0]
        q_scale = allreduce_data(q_B.detach().abs().mean() * self._optimizers["actor"].weight, op="mean")
        loss, bc_loss = td3_bc_actor_error(q_B, action_BD, batch["action"], q_scale, self._cfg.learn.alpha)
        return loss, {"bc_loss": bc_loss, "q_scale": q_scale}

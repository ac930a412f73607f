"""A learning rate that follows the divergence of PPO's updates, as in rsl_rl: `policy.learn.kl_learning_rate`.

With the mean KL = KL(pi_old || pi) of a minibatch over all ranks, where pi is the policy before the update,

    rate' = rate / 1.5   if KL > 2 target_kl
            1.5 rate     if KL < target_kl / 2
            rate         otherwise,    within 1e-5..1e-2.

The divergence is a figure of the loss, which is computed together with the gradient. So rate' is that of the next
update; in rsl_rl, which computes the divergence first, it is that of the same one. rsl_rl also asks for KL > 0, which
holds there because 1e-5 is added. Here KL is 0 in the first update of a collect, up to rounding, which must not decide.
"""

from __future__ import annotations

from typing import Any

import torch
from easydict import EasyDict

from ding_lite.policy.base import Policy
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.torch_utils.optimizer_step import OptimizerStep
from ding_lite.utils.ranks.collectives import allreduce_data
from ding_lite.utils.registry import WRAPPER_REGISTRY, ConfigError
from ding_lite.utils.schedule import Scheduled

FACTOR = 1.5
LOWEST, HIGHEST = 1e-5, 1e-2  # bounds of the learning rate


@WRAPPER_REGISTRY.register("learn.kl_learning_rate")
class KLRatePolicy(Policy):
    """A policy whose loss has the figure `kl`, as the second base class of a class that has this one as its first.

    The rate is a tensor on the device, which changes in place. So nothing waits for a GPU, and a graph of the
    optimizer's step reads the newest rate.
    """

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        learn, rate = cfg.policy.learn, cfg.policy.learn.learning_rate
        other = "policy.learn.kl_adaptive=True" if learn.kl_adaptive else ""
        other = "the schedule of policy.learn.learning_rate" if isinstance(rate, Scheduled) else other
        if other:
            raise ConfigError(f"policy.learn.kl_learning_rate=True contradicts {other}: set only one.")
        if not LOWEST <= rate <= HIGHEST:
            raise ConfigError(
                f"policy.learn.kl_learning_rate=True keeps the learning rate from {LOWEST} to {HIGHEST}: expected "
                f"policy.learn.learning_rate to begin there, got {rate}."
            )

    def _init_learn(self) -> None:
        self._rate = torch.tensor(self._cfg.learn.learning_rate, dtype=torch.float32, device=self._device)
        super()._init_learn()

    def _add_optimizer(self, name: str, network: Any, *args: Any, **options: Any) -> OptimizerStep:
        rate = Scheduled(self._cfg.learn.learning_rate, lambda: self._rate)
        return super()._add_optimizer(name, network, rate, *args, **options)

    def _forward_learn(self, batch: Batch) -> Figures:
        output = super()._forward_learn(batch)
        if "kl" in output:  # the auxiliary phase of PPG has none
            kl, target, rate = allreduce_data(output["kl"], op="mean"), self._cfg.learn.target_kl, self._rate
            larger = torch.where(kl < target / 2, rate * FACTOR, rate)
            rate.copy_(torch.where(kl > 2 * target, rate / FACTOR, larger).clamp(LOWEST, HIGHEST))
        return output

    def _state_dict_learn(self) -> dict[str, Any]:
        return super()._state_dict_learn() | {"kl_learning_rate": self._rate}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        if "optimizer" in state and "kl_learning_rate" in state:  # the run that goes on may have had another rule
            self._rate.copy_(state["kl_learning_rate"])

"""Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347), on-policy.

Logged: `policy_loss`, `value_loss`, `entropy`; `approx_kl`, the mean of log p_old - log p_new; `clipfrac`, the share of
clipped ratios; `kl`, if it is used; `grad_norm` before clipping; `learning_rate`. Beyond the paper: clipped values,
values normalised by running statistics, advantages normalised by minibatch and recomputed at each epoch, the dual clip
(Ye et al. 2020, arXiv:1912.09729, eq. 5). Every mean, deviation and decision is that of all ranks' samples together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy.policy_gradient.actor_critic import ActorCriticPolicy, flatten_rows
from ding_lite.rl_utils.distribution import kl_divergence
from ding_lite.rl_utils.ppo import ppo_data, ppo_error
from ding_lite.torch_utils.minibatch import rank_sizes
from ding_lite.torch_utils.running_stat import RunningMeanStd
from ding_lite.utils.dist.collectives import allreduce_data
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_leaves


@POLICY_REGISTRY.register("ppo")
class PPOPolicy(ActorCriticPolicy):
    """PPO for discrete, continuous and hybrid actions. Override `_loss` to change what is minimised."""

    config: ClassVar[dict[str, Any]] = dict(
        type="ppo",  # (str) name in the policy registry
        recompute_adv=True,  # (bool) estimate values and advantages anew at each epoch after the first
        learn=dict(
            epoch_per_collect=10,  # (int) passes over the samples of a collect
            batch_size=64,  # (int) samples per rank and iteration
            learning_rate=3e-4,  # (float) step size of Adam
            lr_scheduler=None,  # (dict, None) linear fall: dict(epoch_num=collects, min_lr_lambda=share left)
            entropy_weight=0.0,  # (float) weight of the entropy bonus
            clip_ratio=0.2,  # (float) bound of |p_new / p_old - 1|
            clip_scheduler=None,  # (dict, None) linear fall: dict(epoch_num=collects, min_clip_lambda=share left)
            value_clip=True,  # (bool) keep new values within clip_ratio of the old ones
            dual_clip=None,  # (float, None) greatest weight of a negative advantage, above 1
            adv_norm=True,  # (bool) advantages of each minibatch, of all ranks together, to mean 0 and deviation 1
            value_norm=True,  # (bool) the model predicts returns normalised by their running mean and deviation
            ppo_param_init=True,  # (bool) orthogonal initial weights, small ones in the policy's last layer
            grad_clip_type="clip_norm",  # (str, None) 'clip_norm' or 'clip_value', applied to the averaged gradient
            kl_beta=0.0,  # (float) weight of a penalty, the mean of KL(old policy || new policy)
            target_kl=None,  # (float, None) the mean KL that kl_early_stop and kl_adaptive refer to
            kl_early_stop=False,  # (bool) end a collect's updates when the mean KL exceeds 1.5 target_kl
            kl_adaptive=False,  # (bool) after a collect double or halve kl_beta, where KL is 1.5 times off target_kl
        ),
        collect=dict(
            gae_lambda=0.95,  # (float) lambda of generalised advantage estimation
        ),
    )
    config_types: ClassVar[dict[str, Any]] = {
        "learn.lr_scheduler": (dict, type(None)),
        "learn.clip_scheduler": (dict, type(None)),
        "learn.dual_clip": (float, type(None)),
        "learn.target_kl": (float, type(None)),
    }

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        learn = cfg.policy.learn
        for key, lowest in (("lr_scheduler", "min_lr_lambda"), ("clip_scheduler", "min_clip_lambda")):
            schedule = learn[key]
            if schedule is None:
                continue
            numbers = all(isinstance(value, (int, float)) for value in schedule.values())
            if set(schedule) != {"epoch_num", lowest} or not numbers or schedule["epoch_num"] <= 0:
                raise ConfigError(
                    f"policy.learn.{key} must be dict(epoch_num=collects, {lowest}=share left), got {dict(schedule)}."
                )
        if learn.dual_clip is not None and learn.dual_clip <= 1:
            raise ConfigError(f"policy.learn.dual_clip must be above 1, got {learn.dual_clip}.")
        uses_target = learn.get("kl_early_stop", False) or learn.get("kl_adaptive", False)
        if (learn.get("target_kl") is not None) != uses_target:
            raise ConfigError("policy.learn.target_kl goes with kl_early_stop=True or kl_adaptive=True: set both.")
        if learn.get("kl_adaptive") and learn.kl_beta <= 0:
            raise ConfigError("policy.learn.kl_adaptive=True adapts kl_beta: set policy.learn.kl_beta above 0.")

    def _create_model(self) -> nn.Module:
        model = super()._create_model()
        if self._cfg.learn.ppo_param_init and hasattr(model, "init_parameters"):
            model.init_parameters()  # type: ignore[operator]  # a registered model of the user's may lack it
        return model

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._value_stats = RunningMeanStd().to(self._device)
        self._collects, self._kl_beta, self._clip_ratio = 0, learn.kl_beta, learn.clip_ratio
        self._kl: list[Tensor] = []  # of the updates since the last collect, if anything asks for them
        super()._init_learn()

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "approx_kl", "clipfrac", "kl", "learning_rate"]

    def _get_batches(self, samples: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self._set_schedules()
        block = self._to_device(samples)
        samples_M = flatten_rows({key: block[key] for key in ("obs", "action", "logit")})
        sizes = rank_sizes(len(next(tree_leaves(samples_M))))
        for epoch in range(self._cfg.learn.epoch_per_collect):
            if epoch == 0 or self._cfg.recompute_adv:
                samples_M |= self._targets(block, epoch)
            for batch in self._minibatches(samples_M, sizes):
                yield batch
                if self._cfg.learn.kl_early_stop and self._joined_kl(self._kl[-1:]) > 1.5 * self._cfg.learn.target_kl:
                    return self._end_collect()
        return self._end_collect()

    def _targets(self, block: dict[str, Any], epoch: int) -> dict[str, Tensor]:
        """Return `value`, as the model said it, `adv`, and `return_`, as the model should say it, `[M]`."""
        value_TN, next_value_TN = self._values(block, recompute=epoch > 0)
        stats, norm = self._value_stats, self._cfg.learn.value_norm
        unscale = stats.denormalize if norm else lambda value: value
        adv_TN, return_TN = self._advantages(block, unscale(value_TN), unscale(next_value_TN))
        targets_M = flatten_rows({"value": value_TN, "adv": adv_TN, "return_": return_TN})
        if norm and epoch == 0:
            stats.update(targets_M["return_"])
        return targets_M | ({"return_": stats.normalize(targets_M["return_"])} if norm else {})

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and detached tensors to log. Pure in model and batch.

        Args:
            batch: `obs, action, logit` as collected, `value` and `adv` `[B]`, `return_` `[B]` in the model's units, and
                `weight` `[B]` where ranks differ in B.
        """
        learn, weight = self._cfg.learn, batch.get("weight")
        output = self._run_model(batch["obs"], "compute_actor_critic")
        new = (output["logit"], batch["logit"], batch["action"], output["value"])
        data = ppo_data(*new, batch["value"], batch["adv"], batch["return_"], weight)
        errors, info = ppo_error(data, self._clip_ratio, learn.value_clip, learn.dual_clip)
        loss = errors.policy_loss + learn.value_weight * errors.value_loss - learn.entropy_weight * errors.entropy_loss
        figures = {"policy_loss": errors.policy_loss, "value_loss": errors.value_loss, "entropy": errors.entropy_loss}
        if self._kl_beta or learn.get("target_kl") is not None:
            kl_B = kl_divergence(batch["logit"], output["logit"])
            figures["kl"] = kl_B.mean() if weight is None else (kl_B * weight).mean()
            loss = loss + self._kl_beta * figures["kl"]
        figures = {key: value.detach() for key, value in figures.items()}
        return loss, figures | {"approx_kl": info.approx_kl, "clipfrac": info.clipfrac}

    def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        output = super()._forward_learn(batch)
        if "kl" in output:
            self._kl.append(output["kl"])
        return output | {"learning_rate": torch.tensor(self._optimizer.optimizer.param_groups[0]["lr"])}

    # Schedules and the KL's target.

    def _set_schedules(self) -> None:
        """Set what falls with the number of collects, and count this one."""
        learn = self._cfg.learn
        share = _linear(learn.lr_scheduler, "min_lr_lambda", self._collects)
        for group in self._optimizer.optimizer.param_groups:
            group["lr"] = learn.learning_rate * share
        self._clip_ratio = learn.clip_ratio * _linear(learn.clip_scheduler, "min_clip_lambda", self._collects)
        self._collects += 1
        self._kl.clear()

    def _joined_kl(self, kl: list[Tensor]) -> float:
        return float(allreduce_data(torch.stack(kl).mean(), op="mean"))

    def _end_collect(self) -> None:
        """Adapt the penalty's weight to the KL that this collect's updates reached (Schulman et al. 2017, eq. 8)."""
        if not self._cfg.learn.kl_adaptive:
            return
        last_epoch = self._kl[-max(1, len(self._kl) // self._cfg.learn.epoch_per_collect) :]
        kl, target = self._joined_kl(last_epoch), self._cfg.learn.target_kl
        if kl > 1.5 * target:
            self._kl_beta *= 2
        elif kl < target / 1.5:
            self._kl_beta /= 2

    def _state_dict_learn(self) -> dict[str, Any]:
        own = {"value_stats": self._value_stats.state_dict(), "collects": self._collects, "kl_beta": self._kl_beta}
        return super()._state_dict_learn() | own

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        self._value_stats.load_state_dict(state["value_stats"])  # the model's values are in their units
        if "optimizer" in state:
            self._collects, self._kl_beta = state["collects"], state["kl_beta"]


def _linear(schedule: dict[str, float] | None, lowest: str, count: int) -> float:
    """Return the share of a linear fall from 1 that is left after `count` of `epoch_num` collects."""
    if schedule is None:
        return 1.0
    return 1.0 - (1.0 - schedule[lowest]) * min(count / schedule["epoch_num"], 1.0)

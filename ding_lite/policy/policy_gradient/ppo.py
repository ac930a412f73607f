"""Proximal policy optimisation (PPO, Schulman et al. 2017, arXiv:1707.06347), on-policy.

Logged figures:

* `total_loss`: the loss that is minimised, policy_loss + value_weight value_loss - entropy_weight entropy
  + kl_beta kl; kl_div in place of kl if there is a pretrained policy.
* `policy_loss`, `value_loss`, `entropy`: its parts without their weights. The entropy is in nats.
* `approx_kl`: the mean of log pi_old(a) - log pi_new(a), an estimate of KL(pi_old || pi_new).
* `clipfrac`: the share of the ratios pi_new(a) / pi_old(a) beyond 1 +- clip_ratio.
* `kl`, only if `kl_beta` or `target_kl` is set: the mean of KL(pi_old || pi_new), in closed form.
* `kl_div`, only with `pretrained_model_path`: an estimate of KL(pi_new || pi_pretrained).
* `explained_variance`: 1 - Var(R - V) / Var(R) of the collect's returns R and values V; 1 if V predicts R perfectly.
* `grad_norm`: the norm of the averaged gradient before clipping. `learning_rate`.

Additions to the paper: the value loss is clipped; values are normalised by the running mean and standard deviation of
returns, see `ValueUnits`; advantages are normalised in each minibatch and recomputed for each epoch; the dual clip
(Ye et al. 2020, arXiv:1912.09729, eq. 5). Each of these is a key of the config. Every mean, deviation and decision
covers the samples of all ranks.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import MULTI_AGENT
from ding_lite.policy.policy_gradient.actor_critic import (
    DISTRIBUTIONS,
    LOSS_KEYS,
    ValueUnits,
    estimate_advantages,
    estimate_values,
    flatten_rows,
    init_parameters,
    normalize_advantages,
)
from ding_lite.policy.sequences import (
    by_environment,
    check_core,
    evaluate_sequences,
    find_core,
    sequence_minibatches,
    sequence_values,
)
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import kl_divergence, log_prob, log_prob_entropy, sample
from ding_lite.rl_utils.policy_gradient import clipped_objective, squared_value_error
from ding_lite.rl_utils.ppo import pretrained_kl
from ding_lite.torch_utils.minibatch import explained_variance, minibatches, rank_sizes
from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.key import Key, merge_keys
from ding_lite.utils.ranks.collectives import allreduce_data
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.schedule import Scheduled
from ding_lite.utils.tree import tree_leaves


@POLICY_REGISTRY.register("ppo")
class PPOPolicy(Policy):
    """PPO for discrete, multi-discrete, continuous or hybrid actions. Override `_loss` to change the objective."""

    config: ClassVar[dict[str, Any]] = merge_keys(
        dict(learn=LOSS_KEYS),
        dict(
            type="ppo",
            multi_agent=MULTI_AGENT,
            recompute_adv=Key(True, "compute values and advantages again for each epoch after the first"),
            learn=dict(
                entropy_weight=0.0,
                ppo_param_init=True,
                epoch_per_collect=Key(10, "passes over the samples of a collect", low=1),
                batch_size=64,
                learning_rate=3e-4,
                clip_ratio=Key(0.2, "bound of |pi_new(a) / pi_old(a) - 1|", low=0),
                value_clip=Key(True, "clip new values to within clip_ratio of the old ones in the value loss"),
                dual_clip=Key(None, "bound of the ratio if the advantage is negative; None: none", type=float, above=1),
                adv_norm=Key(True, "normalise each minibatch's advantages, over all ranks, to mean 0 and variance 1"),
                value_norm=Key(True, "normalise the predicted returns by their running mean and standard deviation"),
                grad_clip_type="clip_norm",
                kl_beta=Key(0.0, "weight of KL(pi_old || pi_new), or KL(pi_new || pi_pretrained)", low=0),
                kl_type=Key("k1", "estimate of the second KL: log-ratio, its square, k3", choices=("k1", "k2", "k3")),
                pretrained_model_path=Key(None, "checkpoint of pi_pretrained, of the same model; None: none", type=str),
                target_kl=Key(
                    None, "desired mean of KL(pi_old || pi_new), for kl_early_stop and kl_adaptive", type=float
                ),
                kl_early_stop=Key(False, "end the updates of a collect when the mean KL exceeds 1.5 target_kl"),
                kl_adaptive=Key(False, "after a collect, double or halve kl_beta if KL is 1.5 times off target_kl"),
            ),
            collect=dict(
                n_sample=Key(
                    2048, "env steps per rank and collect, rounded up to a multiple of collector_env_num", low=1
                ),
                gae_lambda=Key(0.95, "lambda of generalised advantage estimation", low=0, high=1),
            ),
        ),
    )
    model_type = "vac"
    agents_model_type = "mavac"
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "collect"
    action_spaces = DISTRIBUTIONS
    actor_mode = "compute_actor"
    stored_outputs = ("logit", "value", "prev_state", "logit_pretrained")
    transition_with_policy_data = True
    recurrent: ClassVar[bool] = True  # whether its model may have a recurrent core
    _pretrained: nn.Module | None = None
    trainer_keys: ClassVar[tuple[str, ...]] = ("learn.kl_early_stop", "learn.kl_adaptive", "learn.target_kl")
    logged_figures: ClassVar[tuple[str, ...]] = (
        *("policy_loss", "value_loss", "entropy", "explained_variance"),
        *("approx_kl", "clipfrac", "kl", "kl_div"),
    )

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        check_core(cfg.policy, cls.recurrent)
        check_kl_keys(cfg)

    def __init__(self, cfg: EasyDict, *args: Any, **kwargs: Any) -> None:
        """Build the policy as `Policy` does. Without the learn mode it can still compute its loss."""
        self.remembers = find_core(cfg.model) is not None
        self._adapted_kl_beta: float | None = None  # value after changes by `kl_adaptive`
        self._value_stats = ValueUnits(cfg.learn.value_norm)
        super().__init__(cfg, *args, **kwargs)
        self._kl_is_scheduled = isinstance(self.schedules.follower("learn.kl_beta"), Scheduled)

    def _create_model(self) -> nn.Module:
        return init_parameters(super()._create_model(), self._cfg)

    def _init_learn(self) -> None:
        self._value_stats.to(self._device)
        self._kl: list[Tensor] = []  # divergences of the updates since the last collect, if they are computed
        super()._init_learn()

    def _init_collect(self) -> None:
        self._value_stats.to(self._device)
        if self._cfg.learn.pretrained_model_path is not None:
            self._pretrained = load_pretrained(self._model, self._cfg.learn.pretrained_model_path)

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        output = self._play(obs, explore=True, mode="compute_actor_critic")
        output |= {"action": sample(output["logit"]), "value": self._value_stats.denormalize(output["value"])}
        if self._pretrained is None:
            return output
        return output | {"logit_pretrained": self._run(self._pretrained, obs, mode="compute_actor")["logit"]}

    def _batches(self, samples: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self._kl.clear()
        block = self._to_device(samples)
        of_memory = ("prev_state", "episode_step") if self.remembers else ()
        keys = ("obs", "action", "logit", "logit_pretrained", "active", *of_memory)
        samples_M = self._arrange({key: block[key] for key in keys if key in block})
        sizes = rank_sizes(len(next(tree_leaves(samples_M))))
        for epoch in range(self._cfg.learn.epoch_per_collect):
            if epoch == 0 or self._cfg.recompute_adv:
                samples_M |= self._targets(block, epoch)
            cut = sequence_minibatches if self.remembers else minibatches
            batches = cut(samples_M, self._cfg.learn.batch_size, sizes)
            for batch in normalize_advantages(batches) if self._cfg.learn.adv_norm else batches:
                yield batch
                if self._cfg.learn.kl_early_stop and self._joined_kl(self._kl[-1:]) > 1.5 * self._cfg.learn.target_kl:
                    return self._end_collect()
        return self._end_collect()

    def _arrange(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Return tensors `[T, N, ...]` as the units to shuffle: samples `[M, ...]`, or sequences `[N, T, ...]`."""
        return by_environment(rows) if self.remembers else flatten_rows(rows)

    def _targets(self, block: dict[str, Any], epoch: int) -> dict[str, Tensor]:
        """Return the targets of one epoch, all `[M]`, or `[N, T]` for a recurrent model.

        Args:
            block: the rollout block, on the policy's device.
            epoch: 0 uses the values computed when collecting; later ones compute them again.

        Returns:
            `value` and `return_` in the model's units, which are normalised if `value_norm` is set, and `adv` in the
            units of rewards.
        """
        value_TN, next_value_TN = self._values(block, recompute=epoch > 0)
        adv_TN, return_TN = estimate_advantages(self, block, value_TN, next_value_TN)
        targets_M = self._arrange({"value": value_TN, "adv": adv_TN, "return_": return_TN})
        value_M, return_M = targets_M["value"], targets_M["return_"]
        if epoch == 0:
            active_TN = block.get("active", torch.ones_like(return_TN, dtype=torch.bool))
            self._figures["explained_variance"] = explained_variance(value_TN[active_TN], return_TN[active_TN])
            active_M = self._arrange({"active": active_TN})["active"]
            value_M = self._value_stats.change(self._model, return_M[active_M], value_M)
        else:
            value_M = self._value_stats.normalize(value_M)
        return targets_M | {"value": value_M, "return_": self._value_stats.normalize(return_M)}

    def _values(self, block: dict[str, Any], recompute: bool) -> tuple[Tensor, Tensor]:
        """Return V(s_t) and V(s_{t+1}) in units of rewards, both `[T, N]`, see `estimate_values`."""
        estimate = sequence_values if self.remembers else estimate_values
        return estimate(self, block, self._value_stats, recompute)

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss, and detached tensors whose means are logged. It depends only on the model and the batch.

        Args:
            batch: `obs`, `action`, `logit` as collected; `value`, `adv` and `return_` `[B]` as `_targets` returns them;
                `weight` `[B]` if B differs between ranks; `logit_pretrained` if there is a pretrained policy. A
                recurrent model's are described in `sequence_minibatches`.
        """
        learn, weight_B, pretrained = self._cfg.learn, batch.get("weight"), batch.get("logit_pretrained")
        if self.remembers:
            output = evaluate_sequences(self, batch)
        else:
            output = self._run(self._model, batch["obs"], mode="compute_actor_critic")
        logp_B, entropy_B = log_prob_entropy(output["logit"], batch["action"])
        with torch.no_grad():
            logp_old_B = log_prob(batch["logit"], batch["action"])
        ratio_B, clip = (logp_B - logp_old_B).exp(), learn.clip_ratio
        objective_B = clipped_objective(ratio_B, batch["adv"], clip, learn.dual_clip)
        value_clip = clip if learn.value_clip else None
        square_B = squared_value_error(output["value"], batch["value"], batch["return_"], value_clip)
        policy_loss = -weighted_mean(objective_B, weight_B)
        value_loss = 0.5 * weighted_mean(square_B, weight_B)
        entropy = weighted_mean(entropy_B, weight_B)
        loss = policy_loss + learn.value_weight * value_loss - learn.entropy_weight * entropy
        figures = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        with torch.no_grad():
            figures["approx_kl"] = -weighted_mean(logp_B - logp_old_B, weight_B)
            figures["clipfrac"] = weighted_mean(((ratio_B - 1.0).abs() > clip).to(ratio_B.dtype), weight_B)
        if ((self._kl_is_scheduled or self._kl_beta) and pretrained is None) or learn.get("target_kl") is not None:
            figures["kl"] = weighted_mean(kl_divergence(batch["logit"], output["logit"]), weight_B)
        if pretrained is not None:
            figures["kl_div"] = pretrained_kl(output["logit"], pretrained, batch["action"], learn.kl_type, weight_B)
        penalty = figures.get("kl" if pretrained is None else "kl_div")
        loss = loss if penalty is None else loss + self._kl_beta * penalty
        return loss, {key: value.detach() for key, value in figures.items()}

    def _forward_learn(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        output = self._optimizer.step(self._loss, batch)
        self._kl += [output["kl"]] if "kl" in output else []
        return output

    # The penalty on the KL.

    @property
    def _kl_beta(self) -> float:
        return self._cfg.learn.kl_beta if self._adapted_kl_beta is None else self._adapted_kl_beta

    def _joined_kl(self, kl: list[Tensor]) -> float:
        """Return the mean of KLs over updates and ranks; one collective."""
        return float(allreduce_data(torch.stack(kl).mean(), op="mean"))

    def _end_collect(self) -> None:
        """Adapt `kl_beta` to the KL of the last epoch's updates (Schulman et al. 2017, below eq. 8)."""
        if not self._cfg.learn.kl_adaptive:
            return
        last_epoch = self._kl[-max(1, len(self._kl) // self._cfg.learn.epoch_per_collect) :]
        kl, target = self._joined_kl(last_epoch), self._cfg.learn.target_kl
        self._adapted_kl_beta = self._kl_beta * (2.0 if kl > 1.5 * target else 0.5 if kl < target / 1.5 else 1.0)

    def _state_dict_learn(self) -> dict[str, Any]:
        own = {"value_stats": self._value_stats.state_dict(), "kl_beta": self._kl_beta}
        return super()._state_dict_learn() | own

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        self._value_stats.load_state_dict(state["value_stats"])  # the model predicts returns in these units
        if "optimizer" in state:
            self._adapted_kl_beta = state["kl_beta"] if self._cfg.learn.get("kl_adaptive") else None

    def state_to_act(self) -> dict[str, Any]:
        return super().state_to_act() | {"value_stats": self._value_stats.state_dict()}

    def load_to_act(self, state: dict[str, Any]) -> None:
        super().load_to_act(state)
        if "value_stats" in state:
            self._value_stats.load_state_dict(state["value_stats"])


def load_pretrained(model: nn.Module, path: str) -> nn.Module:
    """Return a copy of a model, with the parameters of a checkpoint and without gradients."""
    network, state = copy.deepcopy(model).requires_grad_(False), load_checkpoint(path)
    try:
        network.load_state_dict(state["policy"]["model"])
    except (KeyError, TypeError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ConfigError(
            f"policy.learn.pretrained_model_path: '{path}' does not have this policy's model: {reason}"
        ) from error
    if "obs.mean" in state["policy"].get("normalizer", {}):
        raise ConfigError(
            f"policy.learn.pretrained_model_path: the policy of '{path}' learned from normalised observations, which "
            "this policy does not give it: choose the checkpoint of a run with env.norm_obs=False."
        )
    return network


def check_kl_keys(cfg: EasyDict) -> None:
    """Check `target_kl`, `kl_beta`, `pretrained_model_path` and related keys of a compiled config."""
    policy, learn, path = cfg.policy, cfg.policy.learn, "policy.learn.pretrained_model_path"
    uses_target = learn.get("kl_early_stop", False) or learn.get("kl_adaptive", False)
    if (learn.get("target_kl") is not None) != uses_target:
        raise ConfigError("policy.learn.target_kl belongs to kl_early_stop=True or kl_adaptive=True: set both.")
    scheduled = isinstance(learn.kl_beta, Scheduled)
    if learn.get("kl_adaptive") and scheduled:
        raise ConfigError(
            "policy.learn.kl_adaptive=True contradicts the schedule of policy.learn.kl_beta: set only one."
        )
    if learn.get("kl_adaptive") and learn.kl_beta <= 0:
        raise ConfigError("policy.learn.kl_adaptive=True adapts kl_beta: set policy.learn.kl_beta above 0.")
    if learn.pretrained_model_path is None:
        return
    if learn.kl_beta <= 0 and not scheduled:  # a schedule may begin or end with 0
        raise ConfigError(f"{path} has no effect without a weight: set policy.learn.kl_beta above 0.")
    if learn.get("kl_adaptive"):
        raise ConfigError(
            f"{path} contradicts kl_adaptive=True, which adapts kl_beta to KL(pi_old || pi_new): drop one."
        )
    if key := find_core(policy.model):
        raise ConfigError(f"{path} is not possible with policy.model.{key}: leave one out.")
    if cfg.env.norm_obs.use_norm:
        raise ConfigError(
            f"{path} is not possible with env.norm_obs=True: the pretrained policy would see observations that are "
            "normalised by other statistics than those it learned with. Leave one out."
        )

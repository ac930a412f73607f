"""Proximal policy optimisation (PPO, Schulman et al. 2017, arXiv:1707.06347), on-policy.

    L = -mean min(r A, clip(r, 1 - clip_ratio, 1 + clip_ratio) A) + value_weight L_V - entropy_weight mean H(pi(. | s))
        + kl_beta KL,   r = pi(a | s) / pi_old(a | s),   L_V = 1/2 mean (R - V(s))^2

with generalised advantages A and returns R; `kl_penalty.py` has the divergence KL, which is left out by default.

Additions to the paper: the value loss is clipped; values are normalised by the running mean and standard deviation of
returns, see `ValueUnits`; advantages are normalised in each minibatch and recomputed for each epoch; the dual clip
(Ye et al. 2020, arXiv:1912.09729, eq. 5). Each of these is a key of the config. Every mean, deviation and decision
covers the samples of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import AGENT_KEYS, EPOCH_KEYS, LEARNING_RATE_KEYS, MIRROR_KEYS, ROLLOUT_KEYS
from ding_lite.policy.policy_gradient.actor_critic import (
    ADVANTAGE_KEYS,
    DISTRIBUTIONS,
    LOSS_KEYS,
    ValuesInUnits,
    normalize_advantages,
)
from ding_lite.policy.policy_gradient.kl_penalty import (
    KL_KEYS,
    TARGET_KL_KEYS,
    KLPenalty,
    check_kl_keys,
    load_pretrained,
)
from ding_lite.policy.sequences import (
    check_core,
    evaluate_sequences,
    find_core,
    sequence_minibatches,
)
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import log_prob, log_prob_entropy
from ding_lite.rl_utils.policy_gradient import clipped_objective, squared_value_error
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.torch_utils.minibatch import minibatches, rank_sizes
from ding_lite.utils.key import Groups, Key, merge_keys
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_leaves

# Keys of the loss, and of several epochs of updates after a collect.
PPO_KEYS: dict[str, Any] = merge_keys(
    LOSS_KEYS,
    ADVANTAGE_KEYS,
    dict(
        learn=dict(
            clip_ratio=Key(0.2, "bound of |pi_new(a) / pi_old(a) - 1|", low=0),
            value_clip=Key(True, "clip new values to within clip_ratio of the old ones in the value loss"),
            dual_clip=Key(None, "bound of the ratio if the advantage is negative; None: none", type=float, above=1),
            value_norm=Key(True, "normalise the predicted returns by their running mean and standard deviation"),
        ),
    ),
)
PPO_EPOCH_KEYS: dict[str, Any] = merge_keys(
    EPOCH_KEYS,
    dict(
        recompute_adv=Key(True, "compute values and advantages again for each epoch after the first"),
        learn=TARGET_KL_KEYS,
    ),
)


@POLICY_REGISTRY.register("ppo")
class PPOPolicy(ValuesInUnits, Policy):
    """PPO for discrete, multi-discrete, continuous or hybrid actions. Override `_loss` to change the objective."""

    key_groups: ClassVar[Groups] = (ROLLOUT_KEYS, LEARNING_RATE_KEYS, PPO_KEYS, PPO_EPOCH_KEYS, AGENT_KEYS, MIRROR_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="ppo",
        learn=dict(
            entropy_weight=0.0,
            ppo_param_init=True,
            batch_size=64,
            learning_rate=3e-4,
            grad_clip_type="clip_norm",
            **KL_KEYS,
        ),
    )
    model_type = "vac"
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "collect"
    action_spaces = DISTRIBUTIONS
    actor_mode = "compute_actor"
    stored_outputs = ("logit", "value", "prev_state", "logit_pretrained")
    recurrent: ClassVar[bool] = True  # whether its model may have a recurrent core
    _pretrained: nn.Module | None = None
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
        self.remembers = find_core(cfg.model) is not None
        super().__init__(cfg, *args, **kwargs)
        self._penalty = KLPenalty(self._cfg.learn, self.schedules)

    def _init_collect(self) -> None:
        super()._init_collect()
        if self._cfg.learn.pretrained_model_path is not None:
            self._pretrained = load_pretrained(self._model, self._cfg.learn.pretrained_model_path)

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = super()._forward_collect(obs)
        if self._pretrained is None:
            return output
        return output | {"logit_pretrained": self._run(self._pretrained, obs, mode="compute_actor")["logit"]}

    def _batches(self, samples: Batch) -> Iterator[Batch]:
        self._penalty.begin()
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
                if self._penalty.ends_updates():
                    return self._penalty.adapt()
        return self._penalty.adapt()

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures of a minibatch with what `_targets` returns.

        It has `logit_pretrained` if there is a pretrained policy. `sequence_minibatches` makes a recurrent model's.
        """
        learn, weight_B = self._cfg.learn, batch.get("weight")
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
        divergence, kls = self._penalty.divergence(batch, output["logit"])
        loss = policy_loss + learn.value_weight * value_loss - learn.entropy_weight * entropy
        loss = loss if divergence is None else loss + self._penalty.beta * divergence
        figures = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, **kls}
        with torch.no_grad():
            figures["approx_kl"] = -weighted_mean(logp_B - logp_old_B, weight_B)
            figures["clipfrac"] = weighted_mean(((ratio_B - 1.0).abs() > clip).to(ratio_B.dtype), weight_B)
        return loss, {key: value.detach() for key, value in figures.items()}

    def _forward_learn(self, batch: Batch) -> Figures:
        output = self._optimizer.step(self._loss, batch)
        self._penalty.add(output)
        return output

    def _state_dict_learn(self) -> dict[str, Any]:
        return super()._state_dict_learn() | {"kl_beta": self._penalty.beta}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        if "optimizer" in state:
            self._penalty.load(state["kl_beta"])

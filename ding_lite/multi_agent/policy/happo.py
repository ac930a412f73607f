"""HAPPO (Kuba et al. 2022, arXiv:2109.11251): agents with policies of their own learn one after the other.

The agents share a reward and the value V(s) of the state of the whole task. After a collect they are put into a random
order, and each in turn takes the epochs of PPO, with the advantage A of all actions together and the factor F, by which
the agents before it have made their actions more likely:

    L_m = -mean min(r_m F_m A, clip(r_m, 1 - c, 1 + c) F_m A) - entropy_weight mean H(pi_m),
    r_m = pi_m(a_m | o_m) / pi_m,old(a_m | o_m),   F_m = product of r_k over the agents k before m, after their epochs
    L_V = value_weight / 2 mean max((V - R)^2, (V_old + clip(V - V_old, -c, c) - R)^2)

A and the returns R are those of generalised advantage estimation, computed once for each collect. The critic takes a
step with every minibatch, of whichever agent.

Shapes: T steps, N environments, S = T N samples of a collect, B samples of a minibatch, M agents, A actions of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, Literal

import gymnasium
import torch
from torch import Tensor

from ding_lite.multi_agent.model.agents import of_agent
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import EPOCH_KEYS, LEARNING_RATE_KEYS, ROLLOUT_KEYS
from ding_lite.policy.policy_gradient.actor_critic import (
    ValuesInUnits,
    flatten_rows,
)
from ding_lite.policy.policy_gradient.ppo import PPO_KEYS
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import log_prob, log_prob_entropy
from ding_lite.rl_utils.policy_gradient import clipped_objective, squared_value_error
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.torch_utils.minibatch import minibatches, normalize_parts, rank_sizes
from ding_lite.torch_utils.normalizer import active_agents
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import GLOBAL, tree_map


@POLICY_REGISTRY.register("happo")
class HAPPOPolicy(ValuesInUnits, Policy):
    """HAPPO for several agents with discrete actions. Override `_actor_loss` or `_critic_loss` to change it."""

    key_groups = (ROLLOUT_KEYS, EPOCH_KEYS, LEARNING_RATE_KEYS, PPO_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="happo",
        learn=dict(
            entropy_weight=0.0,
            ppo_param_init=True,
            grad_clip_type="clip_norm",
            learning_rate=3e-4,
            critic_learning_rate=Key(3e-4, "learning rate of the critic's optimizer", low=0, high=10**6),
            adv_norm=Key(True, "normalise the advantages of a collect, over all ranks, to mean 0 and variance 1"),
        ),
    )
    model_type = "havac"
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "collect"
    action_spaces = (gymnasium.spaces.MultiDiscrete,)
    multi_agent = True
    state_of_each = True  # it takes a global state of each agent, too
    actor_mode = "compute_actor"
    stored_outputs = ("logit", "value")
    _model: Any
    model_attributes = ("actors", "critic")
    logged_figures = ("policy_loss", "entropy", "approx_kl", "clipfrac", "factor", "explained_variance")

    def _init_learn(self) -> None:
        self._value_stats.to(self._device)
        for agent, actor in enumerate(self._model.actors):
            self._add_optimizer(f"actor{agent}", actor)
        self._add_optimizer("critic", self._model.critic, self._cfg.learn.critic_learning_rate)

    def _batches(self, samples: Batch) -> Iterator[Batch]:
        block, learn = self._to_device(samples), self._cfg.learn
        joint_S = flatten_rows({key: block[key] for key in ("obs", "action", "logit")})
        targets_S = self._targets(block, epoch=0)
        sizes = rank_sizes(len(targets_S["adv"]))
        factor_S = torch.ones_like(targets_S["adv"])
        # The order depends only on what all ranks and a resumed run have in common.
        generator = torch.Generator().manual_seed(self.iteration)
        active_SM = active_agents(joint_S["obs"])
        for agent in torch.randperm(len(self._model.actors), generator=generator).tolist():
            own_S: dict[str, Any] = {"obs": of_agent(joint_S["obs"], agent), "factor": factor_S, **targets_S}
            own_S |= {key: joint_S[key][:, agent] for key in ("action", "logit")}
            if active_SM is not None:  # repeat its first step in the game, with weight 0, for each step outside
                active_S = active_SM[:, agent]
                index_S = torch.arange(len(active_S)).to(active_S.device).where(active_S, active_S.int().argmax())
                own_S = tree_map(lambda leaf: leaf[index_S], own_S) | {"active": active_S}  # noqa: B023 (called at once)
            for _ in range(learn.epoch_per_collect):
                for batch in minibatches(own_S, learn.batch_size, sizes):
                    yield batch | {"agent": torch.tensor(agent)}
            with torch.no_grad():
                logit_SA = self._run(self._model.actors[agent], own_S["obs"])
                log_ratio_S = log_prob(logit_SA, own_S["action"]) - log_prob(own_S["logit"], own_S["action"])
                if active_SM is not None:
                    log_ratio_S = log_ratio_S.masked_fill(~active_S, 0.0)
                factor_S = factor_S * log_ratio_S.exp()

    def _targets(self, block: Block, epoch: int) -> dict[str, Tensor]:
        """Return the targets of `ValuesInUnits`, all `[S]`; with `adv_norm`, advantages without a unit."""
        targets_S = super()._targets(block, epoch)
        if self._cfg.learn.adv_norm:
            (targets_S["adv"],) = normalize_parts([targets_S["adv"]])
        return targets_S

    def _forward_learn(self, batch: Batch) -> Figures:
        """Take a step of the agent whose batch it is, and one of the critic."""
        agent, rows = int(batch["agent"]), {key: column for key, column in batch.items() if key != "agent"}
        output = self._optimizers[f"actor{agent}"].step(partial(self._actor_loss, agent), rows)
        return output | self._optimizers["critic"].step(self._critic_loss, rows)

    def _actor_loss(self, agent: int, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_m and detached figures, for the `obs`, `action` `[B]` and `logit` `[B, A]` of agent m."""
        learn, weight_B = self._cfg.learn, batch.get("weight")
        logit_BA = self._run(self._model.actors[agent], batch["obs"])
        logp_B, entropy_B = log_prob_entropy(logit_BA, batch["action"])
        with torch.no_grad():
            logp_old_B = log_prob(batch["logit"], batch["action"])
        ratio_B, adv_B = (logp_B - logp_old_B).exp(), batch["factor"] * batch["adv"]
        objective_B = clipped_objective(ratio_B, adv_B, clip_ratio=learn.clip_ratio, dual_clip=learn.dual_clip)
        policy_loss, entropy = -weighted_mean(objective_B, weight_B), weighted_mean(entropy_B, weight_B)
        loss = policy_loss - learn.entropy_weight * entropy
        figures = {"policy_loss": policy_loss, "entropy": entropy}
        with torch.no_grad():
            figures["factor"] = weighted_mean(batch["factor"], weight_B)
            figures["approx_kl"] = -weighted_mean(logp_B - logp_old_B, weight_B)
            clipped_B = ((ratio_B - 1.0).abs() > learn.clip_ratio).to(ratio_B.dtype)
            figures["clipfrac"] = weighted_mean(clipped_B, weight_B)
        return loss, {key: value.detach() for key, value in figures.items()}

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_V, for a batch with `value` and `return_` `[B]` as `_targets` returns them."""
        learn = self._cfg.learn
        value_B = self._run(self._model.critic, of_agent(batch["obs"], 0)[GLOBAL])[0]
        clip = learn.clip_ratio if learn.value_clip else None
        square_B = squared_value_error(value_B, old_B=batch["value"], return_B=batch["return_"], clip_ratio=clip)
        return learn.value_weight * 0.5 * weighted_mean(square_B, batch.get("weight")), {}

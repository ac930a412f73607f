"""ACER: actor-critic with experience replay, for discrete actions (Wang et al. 2017, arXiv:1611.01224).

The critic minimises mean (Qret - Q(s, a))^2 / 2, with the targets of Retrace, see `rl_utils/vtrace.py`. With V(s) =
sum_a pi(a | s) Q(s, a), the policy maximises per step

    J = min(c, rho(a_t)) (Qret_t - V_t) log pi(a_t) + entropy_weight H(pi)
        + sum_a max(0, 1 - c / rho(a)) pi(a) (Q(s_t, a) - V_t) log pi(a),   rho = pi / mu

in which only log pi and H have a gradient. Its gradient with respect to log pi(. | s_t) is bounded by a trust region
around the average policy, a slow copy of the actor (eq. 12), and then propagated through the network.

Shapes: U steps of a sequence, B sequences, K episodes truncated inside them, A actions, X = (U + 1) B + K.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import torch
from torch import Tensor

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import SAMPLE_KEYS
from ding_lite.policy.policy_gradient.actor_critic import flatten_rows
from ding_lite.policy.sequences import UNROLL_KEYS
from ding_lite.rl_utils.distribution import finite, kl_divergence, sample
from ding_lite.rl_utils.vtrace import acer_trust_region_update, compute_q_retraces
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.torch_utils.optimizer import Trained
from ding_lite.utils.key import Key, merge_keys
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map

LEAST_RATIO = 1e-8  # keeps c / rho finite


@POLICY_REGISTRY.register("acer")
class ACERPolicy(Policy):
    """ACER. Override `_loss` to change the objective."""

    key_groups = (SAMPLE_KEYS,)
    config: ClassVar[dict[str, Any]] = merge_keys(
        UNROLL_KEYS,
        dict(
            type="acer",
            discount_factor=0.9,
            learn=dict(
                learning_rate_actor=Key(0.0005, "learning rate of the actor's optimizer", low=0, high=10**6),
                learning_rate_critic=Key(0.0005, "learning rate of the critic's optimizer", low=0, high=10**6),
                entropy_weight=Key(0.0001, "weight of the entropy bonus"),
                c_clip_ratio=Key(10.0, "c, the largest importance weight; the excess is corrected for", above=0),
                trust_region=Key(True, "bound each step's divergence from the average policy"),
                trust_region_value=Key(1.0, "largest increase of the divergence, per unit step and sample", low=0),
                target_theta=Key(
                    0.01, "share of the actor mixed into the average policy at each update", above=0, high=1
                ),
            ),
            collect=dict(
                n_sample=Key(16, "sequences per rank and collect", low=1),
            ),
        ),
    )
    model_type = "acer"
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Discrete,)
    actor_mode = "compute_actor"
    stored_outputs = ("logit",)
    _model: Any
    model_attributes = ("actor", "critic")
    logged_figures = ("policy_loss", "bc_loss", "critic_loss", "entropy", "kl_div")

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        rates = {"actor": learn.learning_rate_actor, "critic": learn.learning_rate_critic}
        parts = {name: Trained(getattr(self._model, name), rate) for name, rate in rates.items()}
        self._optimizer = self._add_optimizer("model", parts)
        self._average_model: Any = self._add_target("model")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures of sequences as `worker/replay/sequence.py` makes them."""
        learn, index_UB1 = self._cfg.learn, batch["action"].unsqueeze(-1)
        logp_UBA, q_TBA, v_TB1, next_value_UB1, average_UBA = self._outputs(batch)
        q_UBA, v_UB1, number = q_TBA[:-1], v_TB1[:-1], index_UB1.numel()
        with torch.no_grad():
            ratio_UBA = (logp_UBA - _log_policy(batch["logit"])).exp()  # rho
            target_UB1 = compute_q_retraces(
                q_values=q_TBA,
                v_pred=v_TB1,
                rewards=batch["reward"],
                actions=batch["action"],
                weights=1.0 - batch["done"].to(q_TBA.dtype),
                ratio=ratio_UBA,
                gamma=self._cfg.discount_factor,
                next_value=next_value_UB1,
                traj_flag=batch["traj_flag"],
            )[:-1]
            weight_UB1 = ratio_UBA.gather(-1, index_UB1).clamp(max=learn.c_clip_ratio) * (target_UB1 - v_UB1)
            excess_UBA = (1.0 - learn.c_clip_ratio / (ratio_UBA + LEAST_RATIO)).clamp(min=0.0)
            weight_UBA = excess_UBA * logp_UBA.exp() * (q_UBA - v_UB1)

        def negative_objective(logp_UBA: Tensor) -> tuple[Tensor, Figures]:  # -mean J by log pi
            policy_loss = -(weight_UB1 * logp_UBA.gather(-1, index_UB1)).mean()
            bc_loss = -(weight_UBA * logp_UBA).sum(-1, keepdim=True).mean()
            entropy = -(logp_UBA.exp() * logp_UBA).sum(-1).mean()
            loss = policy_loss + bc_loss - learn.entropy_weight * entropy
            return loss, {"policy_loss": policy_loss, "bc_loss": bc_loss, "entropy": entropy, "loss": loss}

        gradient_UBA, figures = torch.func.grad(negative_objective, has_aux=True)(logp_UBA.detach())
        if learn.trust_region:  # the bound holds for the gradient of each sample's own loss
            own = [gradient_UBA * number]
            (bounded_UBA,) = acer_trust_region_update(own, logp_UBA, average_UBA, learn.trust_region_value)
            gradient_UBA = bounded_UBA / number
        carrier = (gradient_UBA * logp_UBA).sum()  # its gradient is the changed one
        policy_loss = figures.pop("loss") + carrier - carrier.detach()
        critic_loss = (0.5 * (target_UB1 - q_UBA.gather(-1, index_UB1)).square()).mean()
        figures |= {"kl_div": kl_divergence(average_UBA, logp_UBA.detach()), "critic_loss": critic_loss.detach()}
        return policy_loss + critic_loss, figures

    def _outputs(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Run the networks on a batch, see `_loss`.

        Returns:
            log pi(. | s_t) `[U, B, A]` and Q(s_t, .) `[U + 1, B, A]`, with gradients; then, without, V(s_t)
            `[U + 1, B, 1]`, V(s_{t+1}) `[U, B, 1]`, and the average policy's log pi(. | s_t) `[U, B, A]`. Where an
            episode was truncated, V(s_{t+1}) is the value of its true final observation.
        """
        rows = batch["reward"].shape
        size, follows = rows.numel(), rows.numel() + rows[1]
        parts = [flatten_rows(batch["obs"]), batch["last_obs"]]
        parts += [batch["final_obs"]] if "final_index" in batch else []
        obs = tree_map(lambda *leaves: torch.cat(leaves), *parts)
        logp_XA = _log_policy(self._run(self._model.actor, obs))
        q_XA = self._run(self._model.critic, obs)[0]
        with torch.no_grad():
            v_X1 = (logp_XA.exp() * q_XA).sum(-1, keepdim=True)
            v_TB1 = v_X1[:follows].unflatten(0, (rows[0] + 1, rows[1]))  # T = U + 1
            next_value_UB1 = v_TB1[1:].clone()
            if "final_index" in batch:
                next_value_UB1.view(-1)[batch["final_index"]] = v_X1[follows:, 0]
            average_UBA = _log_policy(self._run(self._average_model.actor, parts[0])).unflatten(0, rows)
        q_TBA = q_XA[:follows].unflatten(0, (rows[0] + 1, rows[1]))
        return logp_XA[:size].unflatten(0, rows), q_TBA, v_TB1, next_value_UB1, average_UBA

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        logit_NA = self._run(self._model, obs, mode="compute_actor")["logit"]
        return {"logit": logit_NA, "action": sample(logit_NA)}


def _log_policy(logit: Tensor) -> Tensor:
    """Return log pi, `[..., A]`; it is finite where a logit of -inf forbids an action, so that pi log pi is 0."""
    return finite(logit.log_softmax(-1))

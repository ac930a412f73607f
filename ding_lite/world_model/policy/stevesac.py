"""SAC with stochastic ensemble value expansion, STEVE (Buckman et al. 2018, arXiv:1807.01675).

After a real step (s, a, r, s', done), each of E members of a world model imagines H steps from s', with actions of the
policy and observations of its own. Let g_j be the discount up to its j-th state, 0 after a terminal step, and V the
value of MBSAC. Its returns after j steps are

    T_j = r + sum_{i < j} g_i (r_i - alpha log pi(a_i | s_i)) + g_j V_j,  j = 0, ..., H
    y = sum_j u_j mean_e T_j,  u_j = (1 / var_e T_j) / sum_k (1 / var_e T_k)
    L_critic = sum_c mean (y - Q_c(s, a))^2,  L_actor = -mean y

so that horizons at which the members disagree count less. No gradient flows through u_j.

Shapes: B samples, E members, J = H + 1 horizons, D dimensions of an action.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.torch_utils.data import Batch
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.world_model.policy.mbsac import Expansion, MBSACPolicy, Path, horizon_shape

SMALLEST = 1e-8  # is added to variances and to the sum of their inverses


def steve_path(policy: MBSACPolicy, batch: Batch) -> Path:
    """Return the first steps of the batch, with the targets of the module's equations."""
    noise_BJED = batch["noise"]["actor"]
    noise_JEBD = noise_BJED.permute(1, 2, 0, 3)
    obs = batch["next_obs"].expand(noise_BJED.shape[2], *batch["next_obs"].shape)
    discount_EB = (batch["value_gamma"] * ~batch["done"]).expand(obs.shape[:-1])
    sum_EB = batch["reward"].expand(obs.shape[:-1])
    returns: list[Tensor] = []
    entropies: list[Tensor] = []
    for j, noise_EBD in enumerate(noise_JEBD):
        action, entropy_EB, value_EB = policy._value(obs, noise_EBD)
        returns.append(sum_EB + discount_EB * value_EB)
        entropies.append(entropy_EB)
        if j + 1 < len(noise_JEBD):
            reward_EB, next_obs, done_EB = policy.world_model.step_all(obs, action)
            obs = torch.where(done_EB[..., None], obs, next_obs)
            sum_EB = sum_EB + discount_EB * (reward_EB - entropy_EB)
            discount_EB = discount_EB * policy._cfg.discount_factor * ~done_EB
    target_B = mix_horizons(torch.stack(returns))
    log_prob = (entropies[0].mean(0) / policy._alpha().detach()).detach()
    obs, action, target, weight = (
        column.unsqueeze(0) for column in (batch["obs"], batch["action"], target_B, torch.ones_like(target_B))
    )
    return Path(obs=obs, action=action, target=target, value=target, weight=weight, log_prob=log_prob)


def member_shape(policy: MBSACPolicy) -> tuple[int, ...]:
    """Return the dimensions of the actions that a path draws for each sample, without D: a state's, of each member."""
    return (*horizon_shape(policy), policy.world_model.size if policy.world_model else 1)


@POLICY_REGISTRY.register("stevesac")
class STEVESACPolicy(MBSACPolicy):
    """STEVE with SAC."""

    config: ClassVar[dict[str, Any]] = dict(type="stevesac")
    expansion = Expansion(member_shape, steve_path)


def mix_horizons(return_JEB: Tensor) -> Tensor:
    """Return the means `[B]` over members and horizons, these weighted by the inverse variances over members."""
    precision_JB = 1 / (return_JEB.detach().var(1, unbiased=False) + SMALLEST)
    weight_JB = precision_JB / (precision_JB.sum(0) + SMALLEST)
    return (weight_JB * return_JEB.mean(1)).sum(0)

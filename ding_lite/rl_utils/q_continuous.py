"""Parts of the losses of actor-critic methods for continuous actions, online and offline.

Shapes: B samples, C critics, K actions per state, D dimensions of an action, `...` any leading dimensions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.common import check_same_shape
from ding_lite.rl_utils.distribution import HALF_LOG_TWO_PI


def squashed_sample(logit: dict[str, Tensor], noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions a = tanh(u), u = mu + sigma noise, and log pi(a). The gradient flows through mu and sigma.

    log pi(a) = log N(u; mu, sigma) - sum over D of log(1 - tanh(u)^2), where
    log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)) is accurate for any u, even where tanh(u) is rounded to 1.

    mu and sigma are `[B, D]`, the noise, standard normal numbers, and the actions `[..., B, D]`, and log pi `[..., B]`.
    """
    u = torch.addcmul(logit["mu"], logit["sigma"], noise)
    log_normal = -0.5 * noise.square() - logit["sigma"].log() - HALF_LOG_TWO_PI
    log_slope = 2.0 * (math.log(2.0) - u - functional.softplus(-2.0 * u))
    return torch.tanh(u), (log_normal - log_slope).sum(-1)


def td3_bc_actor_error(
    q_B: Tensor, action_BD: Tensor, data_action_BD: Tensor, q_scale: Tensor, alpha: float
) -> tuple[Tensor, Tensor]:
    """Return the policy loss of TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860, eq. 3 and 5).

    loss = -lambda mean Q(s, pi(s)) + mean (pi(s) - a)^2, lambda = alpha / mean |Q(s, pi(s))|

    The second mean is over samples and dimensions.

    `action_BD` is pi(s), and `q_scale` the mean of |Q(s, pi(s))| over the samples of all ranks. Returns the loss, and
    its second term, detached.
    """
    check_same_shape(action=action_BD, data_action=data_action_BD)
    bc_loss = (action_BD - data_action_BD).square().mean()
    return bc_loss - alpha / q_scale.detach() * q_B.mean(), bc_loss.detach()


def expectile_error(error_B: Tensor, tau: float) -> Tensor:
    """Return mean |tau - 1(u < 0)| u^2, a scalar, which is smallest if V is the tau-expectile of Q.

    Source: Kostrikov et al. 2021, arXiv:2110.06169, eq. 5. u = Q(s, a) - V(s). As tau approaches 1, V approaches the
    largest Q of the data's actions; 1/2 gives half the squared error.
    """
    return (torch.where(error_B < 0, 1.0 - tau, tau) * error_B.square()).mean()


def advantage_weight(adv_B: Tensor, beta: float, largest: float = 100.0) -> Tensor:
    """Return min(exp(beta A), largest) `[B]`, detached: how strongly each action of the data is imitated.

    Source: Kostrikov et al. 2021, arXiv:2110.06169, eq. 7; the bound is from the authors' code. beta is the inverse
    temperature.
    """
    return (beta * adv_B.detach()).exp().clamp(max=largest)


def conservative_gap(q_CKB: Tensor, log_density_KB: Tensor, data_q_CB: Tensor) -> Tensor:
    """Return mean over B of log sum_k exp(Q(s, a_k) - log p(a_k | s)) - Q(s, a), `[C]`.

    Source: Kumar et al. 2020, arXiv:2006.04779, app. F. Minus log K, the first term estimates the logarithm of the
    integral of exp Q(s, .) over actions by importance sampling. The gap is large if Q is higher for other actions than
    for those of the data.

    The K actions a_k are drawn from the densities p, which may differ between k. No gradient flows to the densities.
    """
    check_same_shape(q=q_CKB[0], log_density=log_density_KB)
    return (torch.logsumexp(q_CKB - log_density_KB.detach(), dim=1) - data_q_CB).mean(-1)


def temperature_error(log_alpha: Tensor, log_prob_B: Tensor, target_entropy: float) -> Tensor:
    """Return -log alpha mean(log pi(a | s) + target entropy), the loss of alpha, the weight of the entropy.

    It raises alpha while the policy's entropy is below its target. Source: Haarnoja et al. 2018, arXiv:1812.05905, eq.
    18, with log alpha instead of alpha, as in the authors' code. The entropy is in nats, log pi a constant.
    """
    return -(log_alpha * (log_prob_B.detach() + target_entropy)).mean()

"""Quantile regression losses of distributional values: QR-DQN, IQN and FQF.

Shapes: K quantiles, J quantiles of the target. The package's docstring explains arguments and the other shapes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.common import weighted_mean


def fqf_calculate_fraction_loss(
    q_tau_i: Tensor, q_value: Tensor, quantiles: Tensor, actions: Tensor, weight: Tensor | None = None
) -> Tensor:
    """Return a loss whose gradient with respect to the ends tau of FQF's intervals is that of a Wasserstein distance.

    K steps at the intervals' midpoints h approximate the quantile function Z of the return. The 1-Wasserstein distance
    W to them has the derivative (Yang et al. 2019, arXiv:1911.02140, eq. 7)

    dW / d tau_i = (Z(tau_i) - Z(h_{i-1})) - (Z(h_i) - Z(tau_i)),   0 < i < K

    if Z does not decrease. A network's quantiles may decrease. The first difference then changes its sign where Z
    decreases from the previous inner end (from h_0 for i = 1) to tau_i, and the second one where Z decreases from tau_i
    to the next inner end (to h_{K-1} for i = K - 1).

    loss = weighted mean over samples of sum_i tau_i dW / d tau_i, with a constant second factor

    Args:
        q_tau_i: `[B, K - 1, A]`, the quantiles Z of the inner ends tau_1 to tau_{K-1}.
        q_value: `[B, K, A]`, the quantiles Z of the midpoints h_0 to h_{K-1}.
        quantiles: `[B, K + 1]`, the ends tau_0 to tau_K; the gradient flows through it only.
        actions: `[B]`, integer actions.
        weight: `[B]`, importance weights; None: all are 1.

    Returns:
        The scalar loss. Its value has no meaning, only its gradient.
    """
    num_quantiles = q_value.shape[1]
    if q_tau_i.shape[1] != num_quantiles - 1 or quantiles.shape[1] != num_quantiles + 1:
        shapes = f"{tuple(q_tau_i.shape)}, {tuple(q_value.shape)} and {tuple(quantiles.shape)}"
        raise ValueError(f"q_tau_i, q_value and quantiles must be [B, K-1, A], [B, K, A] and [B, K+1], got {shapes}")
    sample_B = torch.arange(len(actions), device=actions.device)
    with torch.no_grad():
        end_BK, middle_BK = q_tau_i[sample_B, :, actions], q_value[sample_B, :, actions]
        before_BK = torch.cat([middle_BK[:, :1], end_BK[:, :-1]], 1)
        after_BK = torch.cat([end_BK[:, 1:], middle_BK[:, -1:]], 1)
        left_BK, right_BK = end_BK - middle_BK[:, :-1], end_BK - middle_BK[:, 1:]
        slope_BK = torch.where(end_BK > before_BK, left_BK, -left_BK)
        slope_BK = slope_BK + torch.where(end_BK < after_BK, right_BK, -right_BK)
    return weighted_mean((slope_BK * quantiles[:, 1:-1]).sum(1), weight)


def quantile_loss(theta_BK: Tensor, target_BJ: Tensor, tau_BK: Tensor, kappa: float) -> Tensor:
    """Return sum_i mean_j |tau_i - 1{u_ij < 0}| L(u_ij), u_ij = target_j - theta_i, `[B]`.

    The gradient flows through the quantiles theta of the probabilities tau. L is the Huber loss, u^2 / 2 if |u| <=
    kappa, else kappa (|u| - kappa / 2); with a kappa of 0, L(u) = |u|.
    """
    theta_BKJ, target_BKJ = torch.broadcast_tensors(theta_BK[..., None], target_BJ[:, None])
    weight_BKJ = (tau_BK[..., None] - (target_BKJ < theta_BKJ).to(theta_BK.dtype)).abs().detach()
    if kappa > 0:
        error_BKJ = functional.huber_loss(theta_BKJ, target_BKJ, reduction="none", delta=kappa)
    else:
        error_BKJ = (target_BKJ - theta_BKJ).abs()
    return (weight_BKJ * error_BKJ).mean(2).sum(1)

"""The clipped objective and the clipped value error of proximal policy optimisation (Schulman et al. 2017).

Shapes: B samples; more leading dimensions are allowed.
"""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_objective(ratio_B: Tensor, adv_B: Tensor, clip_ratio: float, dual_clip: float | None = None) -> Tensor:
    """Return the clipped surrogate objective of each sample, see `ppo_policy_error`; its gradient is the ratio's.

    Raises:
        ValueError: dual_clip is not above 1.
    """
    if dual_clip is not None and dual_clip <= 1.0:
        raise ValueError(f"dual_clip must be above 1, got {dual_clip}")
    objective_B = ratio_B * adv_B
    with torch.no_grad():  # a clipped objective has no gradient
        clipped_B = ratio_B.clamp(1.0 - clip_ratio, 1.0 + clip_ratio) * adv_B
    objective_B = torch.where(clipped_B < objective_B, clipped_B, objective_B)
    if dual_clip is not None:
        floor_B = dual_clip * adv_B
        objective_B = torch.where((adv_B < 0.0) & (objective_B < floor_B), floor_B, objective_B)
    return objective_B


def squared_value_error(value_B: Tensor, old_B: Tensor, return_B: Tensor, clip_ratio: float | None) -> Tensor:
    """Return the squared error of each value, see `ppo_value_error`; the gradient flows through the new value.

    Args:
        value_B: the learning critic's values.
        old_B: the values when the batch was prepared.
        return_B: targets.
        clip_ratio: largest change that counts, in the units of the values; None: any.
    """
    square_B = (return_B - value_B).square()
    if clip_ratio is None:
        return square_B
    with torch.no_grad():  # a clipped error has no gradient
        clipped_B = (return_B - value_B.clamp(old_B - clip_ratio, old_B + clip_ratio)).square()
    return torch.where(clipped_B > square_B, clipped_B, square_B)

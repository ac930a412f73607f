"""The choice of whole episodes from a rollout block. Shapes: T steps, N environments, K ended episodes."""

from __future__ import annotations

import torch
from torch import Tensor


def first_episodes(final_index_K: Tensor, n_step: int, num_envs: int) -> Tensor:
    """Return a mask of the steps of each environment's first m episodes.

    m is the smallest number of ended episodes of any environment, so environments with short episodes do not count more
    than those with long ones. All environments must start a new episode in the first row of the block.

    Args:
        final_index_K: places `t * N + n` of the last steps of episodes, int64.
        n_step: T.
        num_envs: N.

    Returns:
        `[T, N]`, bool.
    """
    end_TN = torch.zeros(n_step * num_envs, dtype=torch.int64, device=final_index_K.device)
    end_TN = end_TN.index_fill(0, final_index_K, 1).view(n_step, num_envs)
    ended_before_TN = end_TN.cumsum(0) - end_TN
    return ended_before_TN < end_TN.sum(0).min()

"""On-policy samples: what follows each step, and minibatches, which on several ranks give the steps of one with all.

Shapes: R ranks, M samples of this rank, K minibatches, B samples of one minibatch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ding_lite.torch_utils.data import Batch, Block
from ding_lite.torch_utils.running_stat import joined_moments
from ding_lite.utils.ranks.collectives import all_gather_tensor, allreduce_data, get_rank
from ding_lite.utils.tree import tree_leaves, tree_map


def next_obs(block: Block) -> Any:
    """Return the observation that follows each step of a rollout block, `[T, N, ...]`, or a dict of these.

    It is the next row of `obs`; after the last row it is `last_obs`, and where an episode ended `final_obs`.
    """

    def follow(obs: Tensor, last: Tensor) -> Tensor:
        return torch.cat([obs[1:], last.unsqueeze(0)])

    following = tree_map(follow, block["obs"], block["last_obs"])
    if "final_index" in block:
        index_K = block["final_index"]
        tree_map(lambda new, final: new.flatten(0, 1).index_copy_(0, index_K, final), following, block["final_obs"])
    return following


def rank_sizes(size: int) -> list[int]:
    """Return the `size` of every rank, in the order of ranks; one collective."""
    return all_gather_tensor(torch.tensor(size)).tolist()


def samples_of_others(own: Tensor) -> Tensor:
    """Return the tensors `[B, ...]` of the other ranks as one, in their order; B may differ. Two collectives."""
    sizes = rank_sizes(len(own))
    padded = own.new_zeros(max(sizes), *own.shape[1:])
    padded[: len(own)] = own
    parts = [part[:size] for part, size in zip(all_gather_tensor(padded), sizes, strict=True)]
    del parts[get_rank()]
    return torch.cat(parts)


def minibatches(samples: Batch, batch_size: int, sizes: list[int]) -> list[Batch]:
    """Shuffle this rank's samples and cut them into nearly equal parts, the same number on every rank.

    K = round(mean of sizes / batch_size), but at least 1 and at most the size of the smallest rank (which may be 0). If
    the sizes differ, `weight` `[B]` is B * R / (sum of B over ranks), times the `weight` that the samples have: the
    mean over ranks of the weighted means is the mean over all samples.

    With `active`, only some numbers of the samples count: `weight` is 0 for the others, and the sum is of those that
    count. Minibatches in which nothing counts on any rank are left out; one collective.

    Args:
        samples: nested dict of `[M, ...]` tensors on one device. `active`, bool `[M, ...]`, says what counts.
        batch_size: approximate number of samples per rank and minibatch.
        sizes: M of every rank, see `rank_sizes`.

    Returns:
        K dicts of `[B, ...]` tensors, which are views of one shuffled copy of the samples.
    """
    count = min(max(1, round(sum(sizes) / len(sizes) / batch_size)), min(sizes))
    if count == 0:
        return []
    order_M = torch.randperm(sizes[get_rank()])

    def cut(x: Tensor) -> tuple[Tensor, ...]:
        return x.index_select(0, order_M.to(x.device)).tensor_split(count)

    pieces = tree_map(cut, samples)
    parts: list[dict[str, Any]] = [tree_map(lambda piece: piece[k], pieces) for k in range(count)]  # noqa: B023
    if "active" in samples:
        totals = allreduce_data(torch.stack([part["active"].sum() for part in parts])).tolist()
    elif len(set(sizes)) > 1:  # the sizes that tensor_split gives
        totals = [sum(size // count + (k < size % count) for size in sizes) for k in range(count)]
    else:
        return parts
    counted = []
    for part, total in zip(parts, totals, strict=True):
        if total:
            active = part.pop("active", torch.ones(len(next(tree_leaves(part)))))
            like = next((leaf for leaf in tree_leaves(part) if leaf.is_floating_point()), torch.empty(0))
            scale = active.numel() * len(sizes) / total
            counted.append(part | {"weight": active.to(like) * scale * part.get("weight", 1.0)})
    return counted


@torch.no_grad()
def normalize_parts(parts: list[Tensor], weights: list[Tensor] | None = None) -> list[Tensor]:
    """Normalise each part by its mean and standard deviation over all ranks, in one collective.

    (x - mean) / (std + 1e-8), where std is the square root of the unbiased variance.

    Args:
        parts: K float tensors `[B]`. K is the same on every rank; the lengths B may differ.
        weights: a tensor of the same shape for each; what has the weight 0 does not count. None: everything does.
    """
    if not parts:
        return []
    x_KB = pad_sequence(parts, batch_first=True).double()
    mask_KB = pad_sequence([weight != 0 for weight in weights or map(torch.ones_like, parts)], batch_first=True)
    size_K = mask_KB.sum(1)
    mean_K = (x_KB * mask_KB).sum(1) / size_K.clamp(min=1)
    square_K = ((x_KB - mean_K.unsqueeze(1)) * mask_KB).square().sum(1)
    count_K, mean_K, square_K = joined_moments(size_K.double(), mean_K, square_K)
    std_K = (square_K / (count_K - 1).clamp(min=1)).sqrt()
    x_KB = (x_KB - mean_K.unsqueeze(1)) / (std_K.unsqueeze(1) + 1e-8)
    return [row[: len(part)].to(part.dtype) for row, part in zip(x_KB, parts, strict=True)]


@torch.no_grad()
def explained_variance(value: Tensor, return_: Tensor) -> Tensor:
    """Return 1 - Var(R - V) / Var(R) over the samples of all ranks, in one collective.

    V(s) and its targets R have the same shape and units. It is 1 if the values predict the returns exactly, 0 if they
    predict them no better than the mean return would, and also 0 if all returns are equal.
    """
    x_2M = torch.stack([return_ - value, return_]).flatten(1).double()
    mean_2 = x_2M.mean(1)
    square_2 = (x_2M - mean_2.unsqueeze(1)).square().sum(1)
    _, _, (error, total) = joined_moments(torch.full_like(mean_2, x_2M.shape[1]), mean_2, square_2)
    return torch.where(total > 0, 1.0 - error / total, 0.0)

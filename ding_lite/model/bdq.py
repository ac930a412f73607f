"""The Q-network of BDQ, with a branch for each choice that an action consists of.

Shapes: B samples, D branches, A options of the largest branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.arguments import ObsShape, branch_options, with_arguments_of
from ding_lite.model.masks import allowed_mean, find_mask, obey_mask
from ding_lite.model.q_learning import DiscreteHead, ValueNetwork
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError


@MODEL_REGISTRY.register("bdq")
class BDQ(ValueNetwork):
    """A shared encoder and state value V, and advantages A_d for each branch (Tavakoli et al. 2018, arXiv:1711.08946).

    Q_d(s, a) = V(s) + A_d(s, a) - mean_a' A_d(s, a')

    The mean is over the allowed options.

    Args:
        num_branches: D. It and `action_bins_per_branch` may replace `action_shape`; if both are given, they must agree.
        action_bins_per_branch: number of options of each branch.
        layer_num: hidden layers of V and of each A_d before its output.
        a_layer_num: hidden layers of each A_d; None: `layer_num`.
        v_layer_num: hidden layers of V; None: `layer_num`.
        action_shape: number of options of each branch; or one number, if an action is a single choice.
        **options: see `ValueNetwork`, whose head stands for V and each A_d.
    """

    @with_arguments_of(ValueNetwork, without=("head_layer_num",))
    def __init__(
        self,
        obs_shape: ObsShape,
        num_branches: int | None = None,
        action_bins_per_branch: int | None = None,
        layer_num: int = 3,
        a_layer_num: int | None = None,
        v_layer_num: int | None = None,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        *,
        action_shape: int | Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(obs_shape, encoder_hidden_size_list, head_layer_num=layer_num, **options)
        self.single = isinstance(action_shape, int)
        self.sizes = _branch_sizes(num_branches, action_bins_per_branch, action_shape)
        v_layers, a_layers = (layer_num if number is None else number for number in (v_layer_num, a_layer_num))
        self.V = DiscreteHead(**self.head_options | dict(output_size=1, layer_num=v_layers))
        heads = (self.head_options | dict(output_size=size, layer_num=a_layers) for size in self.sizes)
        self.A = nn.ModuleList(DiscreteHead(**options) for options in heads)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit`, the action values, for observations `[B, ...]`.

        They are `[B, D, A]`, or `[B, A]` if `action_shape` is one number. A branch with fewer options than A has
        minus infinity for those that it lacks.
        """
        x = self.encoder(obs)
        value_B1, rows, mask = self.V(x), [], find_mask(obs)
        masks = [None] * len(self.A) if mask is None else (mask[:, None] if self.single else mask).unbind(1)
        for size, head, mask_BA in zip(self.sizes, self.A, masks, strict=True):
            advantage_BA = head(x)
            mean_B1 = allowed_mean(advantage_BA, None if mask_BA is None else mask_BA[:, :size])
            q_BA = value_B1 + advantage_BA - mean_B1
            rows.append(functional.pad(q_BA, (0, max(self.sizes) - size), value=-torch.inf))
        return {"logit": obey_mask(rows[0] if self.single else torch.stack(rows, dim=1), obs)}


def _branch_sizes(
    num_branches: int | None, action_bins_per_branch: int | None, action_shape: int | Sequence[int] | None
) -> list[int]:
    """Return the number of options of each branch, from either way to give them."""
    given = None if action_shape is None else [action_shape] if isinstance(action_shape, int) else list(action_shape)
    if num_branches is None or action_bins_per_branch is None:
        if given is None or num_branches is not None or action_bins_per_branch is not None:
            raise ConfigError(
                "policy.model: expected action_shape, or num_branches together with action_bins_per_branch: set these."
            )
        return branch_options(given)
    sizes = [action_bins_per_branch] * num_branches
    if given not in (None, sizes):
        raise ConfigError(
            f"policy.model.num_branches={num_branches} and action_bins_per_branch={action_bins_per_branch} do not "
            f"describe the environment's actions, whose numbers of options are {given}: leave both out."
        )
    return sizes

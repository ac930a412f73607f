"""The Q-network of BDQ, with a branch for each choice that an action consists of.

Shapes: B samples, D branches, A options of the largest branch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.arguments import ObsShape, branch_options
from ding_lite.model.encoders import create_encoder
from ding_lite.model.mlp import Activation
from ding_lite.model.q_learning import DiscreteHead
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError, EncoderChoice


@MODEL_REGISTRY.register("bdq")
class BDQ(nn.Module):
    """A shared encoder and state value V, and advantages A_d for each branch (Tavakoli et al. 2018, arXiv:1711.08946).

    Q_d(s, a) = V(s) + A_d(s, a) - mean_a' A_d(s, a')

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        num_branches: D. It and `action_bins_per_branch` may replace `action_shape`; if both are given, they must agree.
        action_bins_per_branch: number of options of each branch.
        layer_num: hidden layers of V and of each A_d before its output.
        a_layer_num: hidden layers of each A_d; None: `layer_num`.
        v_layer_num: hidden layers of V; None: `layer_num`.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        head_hidden_size: size of the hidden layers of V and of each A_d; None: the number of features.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        noise: use noisy layers in V and A_d, see `NoisyLinear`.
        action_shape: number of options of each branch; or one number, if an action is a single choice.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: the sizes of the branches are missing, contradict each other, or are not a list of numbers.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        num_branches: int | None = None,
        action_bins_per_branch: int | None = None,
        layer_num: int = 3,
        a_layer_num: int | None = None,
        v_layer_num: int | None = None,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        head_hidden_size: int | None = None,
        norm_type: str | None = None,
        activation: Activation = "relu",
        *,
        noise: bool = False,
        action_shape: int | Sequence[int] | None = None,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        self.single = isinstance(action_shape, int)
        self.sizes = _branch_sizes(num_branches, action_bins_per_branch, action_shape)
        size = encoder_hidden_size_list[-1]
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder, norm_type)

        def new_head(options: int, layers: int | None) -> DiscreteHead:
            sizes = (head_hidden_size or size, options, layer_num if layers is None else layers)
            return DiscreteHead(*sizes, activation, norm_type, noise=noise, input_size=size)

        self.V = new_head(1, v_layer_num)
        self.A = nn.ModuleList(new_head(options, a_layer_num) for options in self.sizes)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict with `logit`, the action values, for observations `[B, ...]`.

        They are `[B, D, A]`, or `[B, A]` if `action_shape` is one number. A branch with fewer options than A has
        minus infinity for those that it lacks.
        """
        x = self.encoder(obs)
        value_B1, rows = self.V(x), []
        for size, head in zip(self.sizes, self.A, strict=True):
            advantage_BA = head(x)
            q_BA = value_B1 + advantage_BA - advantage_BA.mean(-1, keepdim=True)
            rows.append(functional.pad(q_BA, (0, max(self.sizes) - size), value=-torch.inf))
        return {"logit": rows[0] if self.single else torch.stack(rows, dim=1)}


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

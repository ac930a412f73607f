"""The Q-networks of C51 and Rainbow, which estimate a categorical distribution of returns.

Shapes: B samples, A discrete actions, K atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.dict_encoder import ObsShape
from ding_lite.model.mlp import ActionShape, create_encoder, single_size
from ding_lite.model.q_learning import DiscreteHead, DuelingHead
from ding_lite.utils.registry import MODEL_REGISTRY, ConfigError, EncoderChoice


def check_support(v_min: float, v_max: float, n_atom: int) -> None:
    """Check the support of a categorical distribution, `n_atom` atoms equally spaced from `v_min` to `v_max`.

    Raises:
        ConfigError: v_min is not smaller than v_max, or there are fewer than two atoms.
    """
    if not v_min < v_max:
        raise ConfigError(
            f"policy.model.v_min={v_min} must be smaller than policy.model.v_max={v_max}: set them to the smallest and "
            "the largest discounted return that is possible."
        )
    if n_atom < 2:
        raise ConfigError(f"policy.model.n_atom: expected at least 2, got {n_atom}.")


class DistributionHead(nn.Module):
    """Maps features `[B, input_size]` to a distribution of the return of each action.

    With `dueling`, the logits of the atoms are V_i + A_i(a) - mean_a A_i (Hessel et al. 2018, arXiv:1710.02298).

    Args:
        hidden_size: size of the hidden layers.
        output_size: A.
        layer_num: hidden layers before the output.
        n_atom: K.
        v_min: the smallest atom.
        v_max: the largest atom.
        activation: see `Activation`.
        norm_type: normalisation of the hidden layers, see `with_norm`.
        noise: use noisy layers, see `NoisyLinear`.
        dueling: compute the logits from a value and advantages.
        input_size: number of features, if it is not `hidden_size`.
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        n_atom: int = 51,
        v_min: float = -10.0,
        v_max: float = 10.0,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        noise: bool = False,
        dueling: bool = False,
        input_size: int | None = None,
    ) -> None:
        super().__init__()
        check_support(v_min, v_max, n_atom)
        self._shape, self._bounds = (output_size, n_atom), (v_min, v_max)

        def new_head(size: int) -> DiscreteHead:
            options = (layer_num, activation, norm_type)
            return DiscreteHead(hidden_size, size, *options, noise=noise, input_size=input_size)

        self.A, self.V = new_head(output_size * n_atom), new_head(n_atom) if dueling else None

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return a dict for features `[B, input_size]`, see `C51DQN`."""
        logit_BAK = self.A(x).unflatten(-1, self._shape)
        if self.V is not None:
            logit_BAK = self.V(x)[:, None] + logit_BAK - logit_BAK.mean(1, keepdim=True)
        log_dist_BAK = logit_BAK.log_softmax(-1)
        dist_BAK = log_dist_BAK.exp()
        support_K = torch.linspace(*self._bounds, self._shape[1], dtype=dist_BAK.dtype, device=dist_BAK.device)
        return {
            "logit": (dist_BAK * support_K).sum(-1),
            "distribution": dist_BAK,
            "log_distribution": log_dist_BAK,
        }


@MODEL_REGISTRY.register("c51dqn")
class C51DQN(nn.Module):
    """A categorical distribution of the return of each discrete action (Bellemare et al. 2017, arXiv:1707.06887).

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of actions.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        head_hidden_size: size of the head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in the head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        v_min: the smallest return that the distribution can express.
        v_max: the largest one.
        n_atom: K, number of returns from v_min to v_max that the distribution can express.
        noise: use noisy layers in the head, see `NoisyLinear`.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: there is no such support, see `check_support`.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        v_min: float = -10.0,
        v_max: float = 10.0,
        n_atom: int = 51,
        *,
        noise: bool = False,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        action_shape = single_size(action_shape)
        self.v_min, self.v_max, self.n_atom = v_min, v_max, n_atom
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder, norm_type)
        size = encoder_hidden_size_list[-1]
        sizes, support = (head_hidden_size or size, action_shape, head_layer_num), (n_atom, v_min, v_max)
        self.head = DistributionHead(*sizes, *support, activation, norm_type, noise=noise, input_size=size)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict for observations `[B, ...]`.

        `distribution` `[B, A, K]` are the probabilities of the atoms, `log_distribution` their logarithms, and `logit`
        `[B, A]` the expected returns, the action values.
        """
        return self.head(self.encoder(obs))


@MODEL_REGISTRY.register("rainbowdqn")
class RainbowDQN(nn.Module):
    """The network of Rainbow (Hessel et al. 2018, arXiv:1710.02298): that of C51 with a dueling head.

    Args:
        obs_shape: see `C51DQN` for this and the next nine.
        action_shape: number of actions.
        encoder_hidden_size_list: sizes of the encoder's layers.
        head_hidden_size: size of the head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in the head before its output.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        v_min: the smallest return that the distribution can express.
        v_max: the largest one.
        n_atom: K.
        noise: use noisy layers in the head, see `NoisyLinear`.
        dueling: compute the head's output from a value and advantages.
        distributional: estimate a distribution; False: only action values, as `DQN` does, without a support.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.

    Raises:
        ConfigError: there is no such support, see `check_support`.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        activation: Activation = "relu",
        norm_type: str | None = None,
        v_min: float = -10.0,
        v_max: float = 10.0,
        n_atom: int = 51,
        *,
        noise: bool = False,
        dueling: bool = True,
        distributional: bool = True,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        action_shape = single_size(action_shape)
        self.v_min, self.v_max, self.n_atom = v_min, v_max, n_atom
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder, norm_type)
        size = encoder_hidden_size_list[-1]
        sizes, support = (head_hidden_size or size, action_shape, head_layer_num), (n_atom, v_min, v_max)
        options: dict[str, Any] = dict(activation=activation, norm_type=norm_type, noise=noise, input_size=size)
        self.head: nn.Module
        if distributional:
            self.head = DistributionHead(*sizes, *support, dueling=dueling, **options)
        else:
            self.head = (DuelingHead if dueling else DiscreteHead)(*sizes, **options)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return what `C51DQN` returns; only `logit` if the model is not distributional."""
        output = self.head(self.encoder(obs))
        return output if isinstance(output, dict) else {"logit": output}

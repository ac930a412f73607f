"""The Q-network of QR-DQN, which estimates the distribution of returns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.dict_encoder import ObsShape
from ding_lite.model.mlp import ActionShape, create_encoder, single_size
from ding_lite.model.q_learning import DiscreteHead
from ding_lite.utils.registry import MODEL_REGISTRY, EncoderChoice


@MODEL_REGISTRY.register("qrdqn")
class QRDQN(nn.Module):
    """Quantiles of the return of each discrete action (Dabney et al. 2018, arXiv:1710.10044).

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of these.
        action_shape: number of actions.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the
            dense layer's size.
        head_hidden_size: size of the head's hidden layers; None: the number of features.
        head_layer_num: hidden layers in the head before its output.
        num_quantiles: K, quantiles of each action.
        activation: one of 'relu', 'tanh', 'gelu', 'elu', 'silu'.
        norm_type: 'LN': layer normalisation of the hidden dense layers, before the activation; None: none.
        noise: use noisy layers in the head, see `NoisyLinear`.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        num_quantiles: int = 32,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        noise: bool = False,
        encoder: EncoderChoice = None,
    ) -> None:
        super().__init__()
        action_shape = single_size(action_shape)
        self._shape = (action_shape, num_quantiles)
        size = encoder_hidden_size_list[-1]
        self.encoder = create_encoder(obs_shape, encoder_hidden_size_list, activation, encoder, norm_type)
        sizes = (head_hidden_size or size, action_shape * num_quantiles, head_layer_num)
        self.head = DiscreteHead(*sizes, activation, norm_type, noise=noise, input_size=size)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return a dict for observations `[B, ...]`.

        `q` `[B, A, K]` are the quantiles, `tau` `[B, K, 1]` their probabilities (i + 1/2) / K, and `logit` `[B, A]`
        their means, the action values.
        """
        q_BAK = self.head(self.encoder(obs)).unflatten(-1, self._shape)
        tau_K = midpoints(self._shape[1], q_BAK)
        return {"logit": q_BAK.mean(-1), "q": q_BAK, "tau": tau_K[:, None].expand(q_BAK.shape[0], -1, -1)}


def midpoints(number: int, like: Tensor) -> Tensor:
    """Return the midpoints (i + 1/2) / K of K equal parts of [0, 1], `[K]`, for `number` K.

    Args:
        number: K.
        like: a tensor whose dtype and device the result gets.
    """
    return (torch.arange(number, device=like.device, dtype=like.dtype) + 0.5) / number
